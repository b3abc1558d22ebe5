"""``tripheno status``: where a study stands, seen from this folder."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from tripheno.cli.console import (
    Format,
    FormatOption,
    out,
    print_json,
)
from tripheno.cli.study_files import Folder
from tripheno.errors import SettingsError

SECONDS_BETWEEN_LOOKS = 1.0


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
            _show(found, form, watched=watch)

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


def _show(found: dict[str, Any], form: Format, *, watched: bool) -> None:
    if form is Format.json:
        print_json(found, indent=None if watched else 2)
        return
    for name, value in found.items():
        shown = ", ".join(map(str, value)) if isinstance(value, list) else value
        out().print(f"{name}: {shown}", markup=False)


def _coordinator_status(folder: Path) -> dict[str, Any]:
    from tripheno.federation.home import CoordinatorHome, is_held

    home = CoordinatorHome(folder)
    current = home.current()
    if not current and not (folder / "federation.toml").is_file():
        raise SettingsError(
            "no site.toml and no federation.toml is here", where=str(folder.resolve()),
            fix="go to the study's folder, or name it with --folder",
        )  # fmt: skip
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
    if not found["at work"]:  # what it wrote down last is over: it waits for nobody
        return found | (_ending_of(home.run_folder(run)) if current["state"] == "open" else {})
    if awaited is not None:
        since = datetime.fromtimestamp(awaited.since, UTC).isoformat(timespec="seconds")
        found |= {"awaited": list(awaited.hospitals), "since": since}
        found["seconds waited"] = round(max(time.time() - awaited.since, 0.0))
        found |= {"step": awaited.step, "why": awaited.why}
    return found


def _ending_of(folder: Path) -> dict[str, Any]:
    """Since when an open run stands still, and why, as its log has it."""
    from tripheno.federation.journal import last_line

    last = last_line(folder)
    if not last:
        return {}
    ended = last["event"] in ("failed", "interrupted")
    why = last["text"] if ended else "it was killed, or its machine stopped"
    return {"stopped": last["time"], "why": why, "next": "`tripheno run` goes on"}


def _progress_of(folder: str) -> dict[str, Any]:
    """How far the run has come, as it wrote it down itself."""
    from tripheno.progress import read_status

    known = (read_status(Path(folder)) if folder else None) or {}
    words = {"stage": "phase", "iteration": "iteration", "most": "at most", "rounds": "rounds",
             "slowest": "slowest hospital"}  # fmt: skip
    found = {shown: known[name] for name, shown in words.items() if known.get(name)}
    sent = sum(one["bytes_up"] + one["bytes_down"] for one in known.get("hospitals", ()))
    since = datetime.fromisoformat(known["started"]) if known else None
    if since is not None:
        found["bytes of the phase"] = sent
        found["seconds"] = round((datetime.fromisoformat(known["updated"]) - since).total_seconds())
    return found


def _hospital_status(folder: Path) -> dict[str, Any]:
    from tripheno.cli.live import hospital_now
    from tripheno.cli.study_files import settings
    from tripheno.errors import TriphenoError
    from tripheno.federation.gatekeeper import days_approved
    from tripheno.federation.home import HospitalHome, is_held
    from tripheno.federation.preflight import check_dates

    protocol, site = settings(folder / "site.toml", folder / "federation.toml")
    found: dict[str, Any] = {"hospital": site.name, "study": protocol.study}
    if protocol.test:
        from tripheno.study.program import TEST

        found["TEST"] = TEST.upper()
    found["joined"] = is_held(site.state / "joined")
    lasting: dict[str, Callable[[], int]] = {
        "approval": lambda: days_approved(protocol, site),
        "certificate": lambda: check_dates(HospitalHome(site).kit),
    }
    for name, days in lasting.items():
        try:
            found[f"{name} days"] = days()
            found[name] = f"good for {found[f'{name} days']} days"
        except TriphenoError as fault:
            found[name] = str(fault)
    known = hospital_now(site.state)
    line = ("connected", "connected since", "lost since")  # of `join` at work
    found |= {name: known[name] for name in known if found["joined"] or name not in line}
    runs = sorted((site.state / "runs").glob("*"), key=lambda path: path.stat().st_mtime)
    if runs:
        store = HospitalHome(site).store(runs[-1].name)
        found |= {"last run": runs[-1].name, "checkpoints": [t for t, _ in store.kept()]}
    return found
