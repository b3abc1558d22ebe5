"""``tripheno join``: a hospital takes part until it is stopped."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

import typer

from tripheno.cli.checks import need_engine, proxy_of_this_machine
from tripheno.cli.console import Format, FormatOption, show_event
from tripheno.cli.study_files import (
    FederationOption,
    SiteOption,
    _hospital_file,
    _member_settings,
    _until_stopped,
)
from tripheno.errors import CoordinatorUnreachable, NameTaken, SettingsError

if TYPE_CHECKING:
    from tripheno.federation.journal import Journal
    from tripheno.federation.provisioning import Address, Kit

SECONDS_BETWEEN_TRIES = 5.0
SECONDS_FOR_LAST_WORDS = 20.0


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
    need_engine()
    from tripheno.cli.live import LiveHospital
    from tripheno.federation.connection import watched
    from tripheno.federation.hardening import check_workspace
    from tripheno.federation.home import HospitalHome, alone
    from tripheno.federation.hospital import HospitalService
    from tripheno.federation.journal import Journal
    from tripheno.federation.preflight import check_dates
    from tripheno.federation.provisioning import Address
    from tripheno.federation.relay import RelayServer
    from tripheno.federation.supervision import Supervised, agent_words

    if (workspace is not None) != no_agent:
        raise SettingsError("--workspace and --no-agent go together", fix="name both, or neither")
    if workspace is not None:
        check_workspace(workspace)
    protocol, site = _member_settings(site_file, federation_file)
    home, journal = HospitalHome(site), Journal(site.state, show_event(form))
    with ExitStack() as stack:
        stack.enter_context(alone(site.state / "joined", site.name))
        stopped = stack.enter_context(_until_stopped())
        live = LiveHospital(journal, site.state)
        file = _hospital_file(protocol, site, site_file, (journal, live), stopped if once else None)
        local, engine = HospitalService(file), None
        if workspace is not None:
            relay = stack.enter_context(
                RelayServer(workspace.resolve(), local.respond, local.may_repeat)
            )
        else:
            kit = home.kit
            check_dates(kit)
            _find_coordinator(kit, Address.of(protocol.operation.address), stopped, journal)
            relay = stack.enter_context(RelayServer(kit.workspace, local.respond, local.may_repeat))
            words, tell = agent_words(kit.workspace, site.name), partial(journal.note, "engine")
            engine = stack.enter_context(Supervised(words, kit.workspace, tell, stopped))
            stack.enter_context(watched(lambda: engine.pid, _ports(kit), live.line))
        journal.note(
            "joined",
            f"{site.name} takes part in {protocol.study!r}: {file.tensor.patients:,} patients",
            result=True, hospital=site.name, study=protocol.study,
        )  # fmt: skip
        stopped.wait()
        if engine is not None and engine.refused:
            raise _name_taken(site.name, protocol.operation.address)
        relay.wait_for_silence(SECONDS_FOR_LAST_WORDS if once else 0.0)
    journal.note("left", "left", result=True, hospital=site.name)


def _name_taken(name: str, address: str) -> NameTaken:
    """The server holds this name for somebody else who is alive."""
    return NameTaken(
        f"the server has another process under the name {name}",
        where=address,
        fix="stop the other one; if it is not yours, tell the coordinator: your key leaked",
    )


def _ports(kit: Kit) -> frozenset[int]:
    """Where the agent's line leads: the coordinator's port, or the proxy's."""
    from tripheno.federation.provisioning import port_of

    proxy = urlsplit(proxy_of_this_machine()).port
    return frozenset({port_of(kit, "client"), *([proxy] if proxy else [])})


def _find_coordinator(kit: Kit, address: Address, stopped: Event, journal: Journal) -> None:
    """Wait for the server to answer; what waiting does not mend is raised at once."""
    from tripheno.federation.preflight import try_connection

    said = False
    while not stopped.is_set():
        try:
            try_connection(kit, address, proxy_of_this_machine())
        except CoordinatorUnreachable as fault:
            if not said:
                journal.note("waiting", f"{fault}; waiting", code=fault.code)
            said = True
            stopped.wait(SECONDS_BETWEEN_TRIES)
        else:
            return
