"""``tripheno serve`` and ``tripheno join``: the two that stay up."""

from __future__ import annotations

import hashlib
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tripheno.cli.console import Format, FormatOption, show_event
from tripheno.cli.preview import FederationOption, SiteOption, settings
from tripheno.cli.setting_up import Folder, need_the_engine, study_of
from tripheno.errors import CoordinatorUnreachable, NameTaken, SettingsError, UnknownMember

if TYPE_CHECKING:
    from tripheno.federation.hospital import HospitalFile
    from tripheno.federation.journal import Journal
    from tripheno.federation.provisioning import Address, Kit
    from tripheno.protocol.agreed import Protocol
    from tripheno.protocol.site import Site
    from tripheno.study.result import Findings

SECONDS_BETWEEN_TRIES = 5.0
SECONDS_FOR_LAST_WORDS = 20.0


def serve(folder: Folder = Path(), form: FormatOption = Format.text) -> None:
    """Run the coordinator's server until it is stopped; it is started again when it dies.

    With `--format json`, one JSON object a line: what is served on stdout, the log on stderr.
    """
    need_the_engine()
    from tripheno.federation.home import CoordinatorHome, alone
    from tripheno.federation.journal import Journal
    from tripheno.federation.supervision import Supervised, server_words

    protocol, home = study_of(folder), CoordinatorHome(folder)
    journal = Journal(home.state, show_event(form))
    with alone(home.state / "engine", "a server"), _until_told() as told:
        fingerprint, kit = home.prepare(protocol)
        home.forget_jobs(kit)
        address = protocol.operation.address
        journal.note(
            "serving",
            f"serving {protocol.study!r} at {address}; the authority's fingerprint is "
            f"{fingerprint}",
            result=True, study=protocol.study, address=address, fingerprint=fingerprint,
        )  # fmt: skip
        with Supervised(server_words(kit.workspace), kit.workspace, journal.tell):
            told.wait()
    journal.note("stopped", "stopped", result=True)


def join(
    site_file: SiteOption = Path("site.toml"),
    federation_file: FederationOption = Path("federation.toml"),
    once: Annotated[bool, typer.Option("--once", help="Leave when a run is finished.")] = False,
    workspace: Annotated[
        Path | None,
        typer.Option(help="Workspace of the agent of an NVFLARE network you have, here."),
    ] = None,
    no_agent: Annotated[
        bool, typer.Option("--no-agent", help="That agent runs already: start none.")
    ] = False,
    form: FormatOption = Format.text,
) -> None:
    """Take part: connect outbound, wait, answer; start again after a fault and go on.

    With `--format json`, one JSON object a line: what was joined and every finished run on stdout,
    the log on stderr.
    """
    need_the_engine()
    from tripheno.federation.hardening import check_workspace
    from tripheno.federation.home import HospitalHome, alone
    from tripheno.federation.hospital import HospitalDesk
    from tripheno.federation.journal import Journal
    from tripheno.federation.preflight import check_dates
    from tripheno.federation.provisioning import Address
    from tripheno.federation.relay import Counter
    from tripheno.federation.supervision import Supervised, agent_words

    if (workspace is not None) != no_agent:
        raise SettingsError("--workspace and --no-agent go together", fix="name both, or neither")
    if workspace is not None:
        check_workspace(workspace)
    protocol, site = _member_settings(site_file, federation_file)
    home, journal = HospitalHome(site), Journal(site.state, show_event(form))
    with ExitStack() as stack:
        stack.enter_context(alone(site.state / "joined", site.name))
        told = stack.enter_context(_until_told())
        file = _hospital_file(protocol, site, site_file, journal, told if once else None)
        desk, engine = HospitalDesk(file), None
        if workspace is not None:
            counter = stack.enter_context(Counter(workspace.resolve(), desk.respond))
        else:
            kit = home.kit
            check_dates(kit)
            _find_coordinator(kit, Address.of(protocol.operation.address), told, journal)
            counter = stack.enter_context(Counter(kit.workspace, desk.respond))
            words = agent_words(kit.workspace, site.name)
            engine = stack.enter_context(Supervised(words, kit.workspace, journal.tell, told))
        journal.note(
            "joined",
            f"{site.name} takes part in {protocol.study!r}: {file.tensor.patients:,} patients",
            result=True, hospital=site.name, study=protocol.study,
        )  # fmt: skip
        told.wait()
        if engine is not None and engine.refused:
            raise _name_taken(site.name, protocol.operation.address)
        counter.wait_for_silence(SECONDS_FOR_LAST_WORDS if once else 0.0)
    journal.note("left", "left", result=True, hospital=site.name)


def _member_settings(site_file: Path, federation_file: Path) -> tuple[Protocol, Site]:
    """Both settings files of a hospital that is a member."""
    protocol, site = settings(site_file, federation_file)
    if site.name not in protocol.names:
        raise UnknownMember(f"'{site.name}' is no member of the study", where="federation.toml")
    return protocol, site


def _name_taken(name: str, address: str) -> NameTaken:
    """The server holds this name for somebody else who is alive."""
    return NameTaken(
        f"the server has another process under the name {name}",
        where=address,
        fix="stop the other one; if it is not yours, tell the coordinator: your key leaked",
    )


def _hospital_file(
    protocol: Protocol, site: Site, site_file: Path, journal: Journal, leave: Event | None
) -> HospitalFile:
    """What this hospital brings along: its data, its keys, its door."""
    from tripheno.federation.doorkeeper import ApprovedDoor, note_refusal
    from tripheno.federation.home import HospitalHome
    from tripheno.federation.hospital import HospitalFile
    from tripheno.privacy.own_data import events_file, own_tensor, own_traits
    from tripheno.protocol.agreed import protocol_hash
    from tripheno.protocol.key_files import read_identity
    from tripheno.provenance import file_fingerprint
    from tripheno.report.federated import Occasion, write_hospital_run

    started, identity, home = time.time(), read_identity(site.identity), HospitalHome(site)
    runs = site_file.resolve().parent / "runs"
    ApprovedDoor(protocol, site, identity).approved()
    tensor, traits = own_tensor(protocol, site), own_traits(protocol, site)
    codes = {axis.mode: axis.size for axis in tensor.axes}

    def door(run: str, coordinator: bytes) -> ApprovedDoor:
        made = ApprovedDoor(protocol, site, identity)
        made.begin(run, codes, coordinator)
        journal.note("begun", f"run {run} began", run=run)
        return made

    def finished(run: str, found: Findings) -> None:
        folder = runs / run
        when = Occasion(protocol, run, started)
        write_hospital_run(folder, site.name, tensor, found, when, traits=traits)
        journal.note("finished", f"finished: {folder}", result=True, run=run, folder=str(folder))

    def over(_run: str) -> None:
        if leave is not None:
            leave.set()

    study, thresholds = protocol_hash(protocol), site.thresholds(protocol)
    secret = home.secret(study[:32])
    events = file_fingerprint(events_file(site))
    return HospitalFile(
        site.name, tensor, protocol, identity,
        store=lambda run: home.store(run, protocol.operation.checkpoint_every),
        door=door, secret=secret,
        snapshot=hashlib.sha256(secret + events.encode()).digest(),  # salted: says nothing alone
        labels=lambda: ApprovedDoor(protocol, site, identity).approved().labels,
        thresholds={"min_cell_count": thresholds.min_cell_count},
        finished=finished, over=over, traits=traits,
        refused=lambda step, code: note_refusal(site, step, code),
        say=lambda text: journal.note("stage", text),
    )  # fmt: skip


def _find_coordinator(kit: Kit, address: Address, told: Event, journal: Journal) -> None:
    """Wait for the server to answer; what waiting does not mend is raised at once."""
    from tripheno.cli.checks import proxy_of_this_machine
    from tripheno.federation.preflight import try_connection

    said = False
    while not told.is_set():
        try:
            try_connection(kit, address, proxy_of_this_machine())
        except CoordinatorUnreachable as fault:
            if not said:
                journal.note("waiting", f"{fault}; waiting", code=fault.code)
            said = True
            told.wait(SECONDS_BETWEEN_TRIES)
        else:
            return


@contextmanager
def _until_told() -> Iterator[Event]:
    """An event that the usual signals to stop set."""
    told = Event()
    before: dict[int, Any] = {}

    def stop(_number: int, _frame: Any) -> None:
        told.set()

    for number in map(int, (signal.SIGINT, signal.SIGTERM)):
        before[number] = signal.signal(number, stop)
    try:
        yield told
    finally:
        for number, old in before.items():
            signal.signal(number, old)
