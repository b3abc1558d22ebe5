"""What several commands read: a study's settings files, and the options that name them."""

from __future__ import annotations

import hashlib
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tripheno.cli.console import out
from tripheno.errors import NotApproved, UnknownMember

if TYPE_CHECKING:
    from tripheno.cli.live import LiveHospital
    from tripheno.federation.hospital import HospitalFile
    from tripheno.federation.journal import Journal
    from tripheno.protocol.agreed import StudyProtocol
    from tripheno.protocol.site import Site
    from tripheno.study.result import Findings

SiteOption = Annotated[Path, typer.Option("--site", help="This hospital's own settings.")]
FederationOption = Annotated[Path, typer.Option("--federation", help="The study's protocol.")]
Folder = Annotated[Path, typer.Option("--folder", help="The folder to work in.")]


def shout_test(protocol: StudyProtocol) -> None:
    """A study that hides nothing says so wherever it is looked at."""
    if protocol.test:
        from tripheno.study.program import TEST

        out().print(TEST.upper(), style="bold red")


def settings(site_file: Path, federation_file: Path) -> tuple[StudyProtocol, Site]:
    """Both settings files under what the environment says."""
    from tripheno.cli.layers import layers_over
    from tripheno.protocol.agreed import read_protocol
    from tripheno.protocol.site import read_site

    protocol = read_protocol(federation_file, layers_over("federation"))
    site = read_site(site_file, layers_over("site"))
    site.thresholds(protocol)  # those that the other hospitals would refuse are refused at home
    return protocol, site


def study_of(folder: Path) -> StudyProtocol:
    """The study in a coordinator's folder."""
    from tripheno.cli.layers import layers_over
    from tripheno.protocol.agreed import read_protocol

    return read_protocol(folder / "federation.toml", layers_over("federation"))


def _member_settings(site_file: Path, federation_file: Path) -> tuple[StudyProtocol, Site]:
    """Both settings files of a hospital that is a member."""
    protocol, site = settings(site_file, federation_file)
    if site.name not in protocol.names:
        raise UnknownMember(f"'{site.name}' is no member of the study", where="federation.toml")
    return protocol, site


def _hospital_file(
    protocol: StudyProtocol,
    site: Site,
    site_file: Path,
    records: tuple[Journal, LiveHospital],
    leave: Event | None,
) -> HospitalFile:
    """What this hospital brings along: its data, its keys, its gate."""
    from tripheno.federation.gatekeeper import ApprovedGatekeeper, note_refusal
    from tripheno.federation.home import HospitalHome
    from tripheno.federation.hospital import HospitalFile
    from tripheno.privacy.own_data import data_fingerprint, own_tensor, own_traits
    from tripheno.protocol.agreed import protocol_hash
    from tripheno.protocol.key_files import read_identity
    from tripheno.study.sharding import shards_of

    journal, live = records
    started, identity, home = time.time(), read_identity(site.identity), HospitalHome(site)
    runs = site_file.resolve().parent / "runs"
    data = ApprovedGatekeeper(protocol, site, identity).approved().data_sha256
    tensor, traits = own_tensor(protocol, site), own_traits(protocol, site)
    codes = {axis.mode: axis.size for axis in tensor.axes}

    def gatekeeper(run: str, coordinator: bytes) -> ApprovedGatekeeper:
        made = ApprovedGatekeeper(protocol, site, identity)
        made.begin(run, codes, coordinator, data)
        live.begun(run)
        return made

    def finished(run: str, found: Findings) -> None:
        from tripheno.report.federated import RunIdentity, write_hospital_run  # 30 MB until then

        folder = runs / run
        when = RunIdentity(protocol, run, started)
        write_hospital_run(folder, site.name, tensor, found, when, traits=traits)
        journal.note("finished", f"finished: {folder}", result=True, run=run, folder=str(folder))

    def refused(step: str, code: str) -> None:
        note_refusal(site, step, code)
        journal.note("refused", f"a step was refused ({code})", step=step[:80], code=code)

    def over(_run: str) -> None:
        live.over()
        if leave is not None:
            leave.set()

    study, thresholds = protocol_hash(protocol), site.thresholds(protocol)
    secret = home.secret(study[:32])
    if data_fingerprint(protocol, site) != data:
        raise NotApproved("the data changed while they were read", where=site.name)
    return HospitalFile(
        site.name, tensor, protocol, identity,
        store=lambda run: home.store(run, protocol.operation.checkpoint_every),
        gatekeeper=gatekeeper, secret=secret,
        snapshot=hashlib.sha256(secret + data.encode()).digest(),  # salted: says nothing alone
        labels=lambda: ApprovedGatekeeper(protocol, site, identity).approved().labels,
        thresholds={"min_cell_count": thresholds.min_cell_count},
        finished=finished, over=over, traits=traits,
        refused=refused, say=lambda text: journal.note("stage", text),
        step=live.step, failed=live.failed,
        shards=lambda: shards_of(site.shards, site.engine),
    )  # fmt: skip


@contextmanager
def _until_stopped() -> Iterator[Event]:
    """An event that the usual signals to stop set."""
    stopped = Event()
    before: dict[int, Any] = {}

    def stop(_number: int, _frame: Any) -> None:
        stopped.set()

    for number in map(int, (signal.SIGINT, signal.SIGTERM)):
        before[number] = signal.signal(number, stop)
    try:
        yield stopped
    finally:
        for number, old in before.items():
            signal.signal(number, old)
