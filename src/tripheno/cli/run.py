"""``tripheno run``: the coordinator carries a study."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tripheno.cli.checks import need_engine
from tripheno.cli.console import (
    Format,
    FormatOption,
    Progress,
    out,
    print_json,
    spoken_warnings,
)
from tripheno.cli.study_files import Folder, study_of
from tripheno.errors import OutputExists, SettingsError

if TYPE_CHECKING:
    from tripheno.federation.home import CoordinatorHome
    from tripheno.protocol.agreed import StudyProtocol


def run(
    to: Annotated[Path, typer.Option("--out", help="Folder for the run.")] = Path("run"),
    folder: Folder = Path(),
    anew: Annotated[
        bool, typer.Option("--new", help="Begin anew, even if a run was paused.")
    ] = False,
    abort: Annotated[bool, typer.Option("--abort", help="Give up the paused run.")] = False,
    workspace: Annotated[
        Path | None,
        typer.Option(help="Workspace of the server of an NVFLARE network you have, here."),
    ] = None,
    admin_kit: Annotated[
        Path | None, typer.Option(help="Your login's kit in that network, role lead.")
    ] = None,
    form: FormatOption = Format.text,
) -> None:
    """Run the study when all members are there; a paused one goes on. Ctrl-C pauses.

    Every member of federation.toml takes part in every sum, or the run waits for it: a study
    without one of them is another study, with another federation.toml and new approvals.
    """
    need_engine()
    from tripheno.federation.hardening import check_workspace
    from tripheno.federation.home import CoordinatorHome, alone
    from tripheno.report.run_folder import check_folder
    from tripheno.study.makers import check_enough

    protocol, home = study_of(folder), CoordinatorHome(folder)
    if (workspace is None) != (admin_kit is None):
        raise SettingsError("--workspace and --admin-kit go together", fix="name both, or neither")
    network = None if workspace is None or admin_kit is None else (workspace, admin_kit)
    if network is not None:
        check_workspace(network[0])
    check_enough(len(protocol.members), allow_two=protocol.allow_two)
    check_folder(to)
    with alone(home.running, "a run"):
        if abort:
            home.close("given up")
            out().print("given up")
            return
        if (to / "run.json").is_file() and home.current().get("state") != "open" and not anew:
            raise OutputExists(
                f"{to} holds a finished run",
                fix="`--new` runs the study again in its place; or name another --out",
            )
        summary = _run(protocol, home, to, anew=anew, network=network)
    if form is Format.json:
        print_json(summary)
        return
    out().print(
        f"{summary['stopped_because']}; {summary['iterations']} iterations, "
        f"RMSE {summary['rmse']['nonzeros']:.4f}\nRun folder: {to}  (report: {to / 'report.html'})"
    )


def _run(
    protocol: StudyProtocol,
    home: CoordinatorHome,
    to: Path,
    *,
    anew: bool,
    network: tuple[Path, Path] | None,
) -> dict[str, Any]:
    from tripheno.cli.live import LiveRun
    from tripheno.federation.channel import EngineChannel
    from tripheno.federation.coordinator import CarriedStudy, coordinate
    from tripheno.federation.journal import Journal
    from tripheno.federation.line import EngineLine
    from tripheno.progress import ProgressLog, Status
    from tripheno.protocol.key_files import read_identity
    from tripheno.report.federated import RunIdentity, write_coordinator_run

    started = time.time()
    engine_settings, identity = home.engine_settings(protocol, network), read_identity(home.key)
    name, goes_on = home.begin(protocol, anew=anew)
    home.write_to(to)
    solver = protocol.solver
    status = Status(solver.method, solver.n_components, solver.max_iter)
    with ExitStack() as stack:
        stack.enter_context(_sigterm_interrupts())
        stack.enter_context(spoken_warnings())
        progress = stack.enter_context(Progress())
        log = stack.enter_context(ProgressLog(to, status, [{"name": n} for n in protocol.names]))
        live = LiveRun(progress, log, Journal(home.run_folder(name)), solver.max_iter)
        line = stack.enter_context(
            EngineLine(
                protocol.names, engine_settings, live.awaiting(lambda a: home.await_(name, a))
            )
        )
        channel = live.channel = EngineChannel(line, live.listen)
        stack.enter_context(live.announced(f"run {name}" + (": going on" if goes_on else "")))
        study = CarriedStudy(
            protocol, name, home.store(name), identity,
            heads=lambda who, head: home.keep_head(name, who, head),
            last_head=lambda who: home.last_head(name, who),
            step=live.step, say=live.stage,
        )  # fmt: skip
        carried = coordinate(study, channel)
        when = RunIdentity(protocol, name, started)
        summary = write_coordinator_run(to, carried.findings, when)
        home.close("finished")
    return summary


@contextmanager
def _sigterm_interrupts() -> Iterator[None]:
    """A request to stop pauses a run as Ctrl-C does."""

    def interrupt(_number: int, _frame: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
