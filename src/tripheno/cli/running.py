"""``tripheno run`` and ``tripheno status``: the study itself, and how it stands."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tripheno.cli.console import (
    Format,
    FormatOption,
    Progress,
    out,
    print_json,
    spoken_warnings,
)
from tripheno.cli.setting_up import Folder, need_the_engine, study_of
from tripheno.errors import OutputExists, SettingsError

if TYPE_CHECKING:
    from tripheno.federation.home import CoordinatorHome
    from tripheno.protocol.agreed import Protocol

SECONDS_BETWEEN_LOOKS = 1.0


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
    need_the_engine()
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
    protocol: Protocol,
    home: CoordinatorHome,
    to: Path,
    *,
    anew: bool,
    network: tuple[Path, Path] | None,
) -> dict[str, Any]:
    from tripheno.cli.live import LiveRun
    from tripheno.federation.channel import EngineChannel
    from tripheno.federation.coordinator import Study, coordinate
    from tripheno.federation.journal import Journal
    from tripheno.federation.line import EngineLine
    from tripheno.progress import ProgressLog, Status
    from tripheno.protocol.key_files import read_identity
    from tripheno.report.federated import Occasion, write_coordinator_run

    started = time.time()
    seat, identity = home.seat(protocol, network), read_identity(home.key)
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
            EngineLine(protocol.names, seat, live.awaiting(lambda a: home.await_(name, a)))
        )
        channel = live.channel = EngineChannel(line, live.listen)
        stack.enter_context(live.told(f"run {name}" + (": going on" if goes_on else "")))
        study = Study(
            protocol, name, home.store(name), identity,
            heads=lambda who, head: home.keep_head(name, who, head),
            last_head=lambda who: home.last_head(name, who),
            step=live.step, say=live.stage,
        )  # fmt: skip
        carried = coordinate(study, channel)
        when = Occasion(protocol, name, started)
        summary = write_coordinator_run(to, carried.findings, when)
        home.close("finished")
    return summary


def status(
    folder: Folder = Path(),
    watch: Annotated[bool, typer.Option("--watch", help="Show every change until Ctrl-C.")] = False,
    metrics: Annotated[
        int | None,
        typer.Option(help="Serve OpenMetrics on this port of this machine until Ctrl-C.", min=0),
    ] = None,
    form: FormatOption = Format.text,
) -> None:
    """How a federation stands, at the coordinator or at a hospital; who is awaited since when."""
    if metrics is not None:
        from tripheno.cli.metrics import HERE, metrics_server

        with metrics_server(lambda: _status(folder), metrics) as port:
            out().print(f"http://{HERE}:{port}/metrics", markup=False)
            _until_interrupted(lambda: None)
        return
    shown: list[dict[str, Any]] = []

    def show() -> None:
        found = _status(folder)
        if found != next(iter(shown), None):
            shown[:] = [found]
            _show(found, form)

    show()
    if watch:
        _until_interrupted(show)


def _until_interrupted(look: Callable[[], None]) -> None:
    with suppress(KeyboardInterrupt):
        while True:
            time.sleep(SECONDS_BETWEEN_LOOKS)
            look()


def _status(folder: Path) -> dict[str, Any]:
    at_hospital = (folder / "site.toml").is_file()
    return _hospital_status(folder) if at_hospital else _coordinator_status(folder)


def _show(found: dict[str, Any], form: Format) -> None:
    if form is Format.json:
        print_json(found)
        return
    for name, value in found.items():
        shown = ", ".join(map(str, value)) if isinstance(value, list) else value
        out().print(f"{name}: {shown}", markup=False)


def _coordinator_status(folder: Path) -> dict[str, Any]:
    from tripheno.federation.home import CoordinatorHome, is_held

    home = CoordinatorHome(folder)
    current = home.current()
    if not current:
        return {"state": "no run was begun here"}
    run = str(current["run"])
    store, awaited = home.store(run), home.awaited(run)
    found: dict[str, Any] = {
        "run": run, "state": current["state"], "at work": is_held(home.running),
        "attempt": store.attempt(),
    }  # fmt: skip
    if current["state"] == "open":
        found |= _progress_of(current.get("folder", ""))
    if awaited is not None:
        since = datetime.fromtimestamp(awaited.since, UTC).isoformat(timespec="seconds")
        found |= {"awaited": list(awaited.hospitals), "since": since}
        found["seconds waited"] = round(max(time.time() - awaited.since, 0.0))
        found |= {"step": awaited.step, "why": awaited.why}
    return found


def _progress_of(folder: str) -> dict[str, Any]:
    """How far the run has come, as it wrote it down itself."""
    from tripheno.progress import read_status

    told = (read_status(Path(folder)) if folder else None) or {}
    words = {"stage": "phase", "iteration": "iteration", "most": "at most", "rounds": "rounds",
             "slowest": "slowest hospital"}  # fmt: skip
    return {shown: told[name] for name, shown in words.items() if told.get(name)}


def _hospital_status(folder: Path) -> dict[str, Any]:
    from tripheno.cli.preview import settings
    from tripheno.errors import TriphenoError
    from tripheno.federation.doorkeeper import today
    from tripheno.federation.home import HospitalHome, is_held
    from tripheno.federation.preflight import check_dates
    from tripheno.privacy.approval import check_approval, read_approval

    protocol, site = settings(folder / "site.toml", folder / "federation.toml")
    found: dict[str, Any] = {"hospital": site.name, "study": protocol.study}
    if protocol.test:
        from tripheno.study.program import TEST

        found["TEST"] = TEST.upper()
    found["joined"] = is_held(site.state / "joined")
    try:
        check_approval(protocol, site, today())
        found["approval"] = f"good until {read_approval(site.approval).expires}"
    except TriphenoError as fault:
        found["approval"] = str(fault)
    try:
        found["certificate days"] = check_dates(HospitalHome(site).kit)
        found["certificate"] = f"good for {found['certificate days']} days"
    except TriphenoError as fault:
        found["certificate"] = str(fault)
    runs = sorted((site.state / "runs").glob("*"), key=lambda path: path.stat().st_mtime)
    if runs:
        store = HospitalHome(site).store(runs[-1].name)
        found |= {"last run": runs[-1].name, "checkpoints": [t for t, _ in store.kept()]}
    return found


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
