"""The pages: Federation, Phenotypes, Compare, Experiments, Privacy."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from threading import Event, Lock
from typing import Any

from jinja2 import ChoiceLoader, PackageLoader
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import (
    HTMLResponse,
    PlainTextResponse,
    RedirectResponse,
    Response,
    StreamingResponse,
)
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from tripheno.dashboard.guard import Guard
from tripheno.dashboard.live import follow
from tripheno.dashboard.patients import MOST_LISTED, OwnPatients
from tripheno.errors import SettingsError, TriphenoError
from tripheno.files import csv_text
from tripheno.progress import STATUS, read_status
from tripheno.report.annotations import (
    VERDICTS,
    Annotation,
    agreement,
    annotation_rows,
    changes,
    latest,
    reviewed,
)
from tripheno.report.page import (
    GRADE_WORDS,
    ORDERS,
    charts_of,
    environment,
    page_context,
    write_page,
)
from tripheno.report.phenotypes import Phenotype
from tripheno.report.rule import RULE
from tripheno.report.run_folder import (
    SHOWN,
    Report,
    read_own_groups,
    read_report,
    read_summary,
    shown_folder,
    status_of,
)
from tripheno.report.runs_compared import RunsCompared, compare_runs
from tripheno.report.who import who_has

HERE = Path(__file__).parent
PAGES = {
    "/": "Federation", "/phenotypes": "Phenotypes", "/compare": "Compare",
    "/experiments": "Experiments", "/privacy": "Privacy",
}  # fmt: skip

PATIENTS = "/patients"  # only with a hospital's own folder


@dataclass(frozen=True)
class FolderView:
    """One folder being looked at: a run, a study of several methods, or a folder of runs."""

    folder: Path

    @property
    def top(self) -> Path:
        """The folder of the run or study that is shown: this one, or the newest in it."""
        kinds = ("run.json", STATUS)
        if any((self.folder / name).is_file() for name in kinds):
            return self.folder
        found = [path for name in kinds for path in self.folder.glob(f"*/{name}")]
        newest = max(found, key=lambda path: path.stat().st_mtime, default=None)
        return newest.parent if newest else self.folder

    @property
    def run(self) -> Path:
        """The run folder whose phenotypes are shown."""
        top = self.top
        if (top / "run.json").is_file():
            return shown_folder(top)
        status = read_status(top)
        return top / SHOWN if status and status["run"] == SHOWN else top

    def unfinished(self) -> dict[str, Any] | None:
        """The status of a run that has no result yet; nothing for one that is complete."""
        top = self.top
        return None if (top / "run.json").is_file() else read_status(top)

    def experiments(self) -> list[dict[str, Any]]:
        """Every run in the folder and one level below."""
        paths = sorted([*self.folder.glob("run.json"), *self.folder.glob("*/run.json")])
        found = [(path.parent, read_summary(path.parent)) for path in paths]
        return [{"name": folder.name, **summary} for folder, summary in found if "rmse" in summary]


def make_app(folder: Path, token: str, hosts: Iterable[str], site: Path | None = None) -> Starlette:
    """The dashboard over a run or study folder; with a hospital's folder, its own patients too."""
    view = FolderView(folder)
    if view.unfinished() is None:
        read_report(view.run)  # a folder that is no run is refused before the first page
    own = OwnPatients(view.run, site) if site is not None else None
    pages = PAGES if own is None else {**PAGES, PATIENTS: "Patients"}
    writing, unwritten = Lock(), Event()
    templates = environment()
    templates.loader = ChoiceLoader(
        [PackageLoader("tripheno.dashboard"), PackageLoader("tripheno.report")]
    )

    def page(request: Request) -> Response:
        path = request.url.path
        status = view.unfinished()
        if status is not None:
            context = {"pages": pages, "here": path, "folder": view.folder.name, "status": status}
            return HTMLResponse(templates.get_template("running.html").render(**context))
        template = templates.get_template(f"{PAGES[path].lower()}.html")
        return HTMLResponse(template.render(**_context(view, request), pages=pages))

    def patients(request: Request) -> Response:
        assert own is not None
        template = templates.get_template("patients.html")
        return HTMLResponse(template.render(**_own_context(view, own, request), pages=pages))

    async def said(request: Request) -> Response:
        form = {key: str(value) for key, value in (await request.form()).items()}
        number, reviewer = form.get("phenotype", ""), form.get("reviewer", "").strip()
        await run_in_threadpool(_keep, read_report(view.run), number, reviewer, form)
        unwritten.set()
        answer = RedirectResponse(
            f"/phenotypes#phenotype-{number}", 303, background=BackgroundTask(write_again)
        )
        answer.set_cookie("reviewer", reviewer.encode().hex(), samesite="strict", httponly=True)
        return answer

    def write_again() -> None:
        with writing:
            if unwritten.is_set():
                unwritten.clear()
                write_page(view.top)

    @asynccontextmanager
    async def until_written(_app: Starlette) -> AsyncIterator[None]:
        yield  # whoever keeps a name and stops the dashboard at once has it in the report too
        await run_in_threadpool(write_again)

    def export(_request: Request) -> Response:
        text = csv_text(annotation_rows(read_report(view.run).annotations.said()))
        name = {"content-disposition": 'attachment; filename="annotations.csv"'}
        return PlainTextResponse(text, media_type="text/csv", headers=name)

    def live(request: Request) -> Response:
        ending = getattr(request.app.state, "ending", lambda: False)
        events = follow(view.top, view.run, ending)
        return StreamingResponse(events, media_type="text/event-stream")

    routes = [
        *(Route(path, page) for path in PAGES),
        *([Route(PATIENTS, patients)] if own is not None else []),
        Route("/annotate", said, methods=["POST"]),
        Route("/annotations.csv", export),
        Route("/live", live),
        Mount("/static", StaticFiles(directory=HERE / "static")),
    ]
    guard = Middleware(Guard, token=token, hosts=tuple(hosts))
    return Starlette(
        routes=routes, middleware=[guard], exception_handlers={TriphenoError: _in_words},
        lifespan=until_written,
    )  # fmt: skip


def _in_words(_request: Request, fault: Exception) -> Response:
    return PlainTextResponse(str(fault), 400)


def _keep(report: Report, number: str, reviewer: str, form: dict[str, str]) -> None:
    """Add what a form says anew to the run's annotations."""
    known = {str(p.number) for p in report.phenotypes}
    if number not in known:
        raise SettingsError("no such phenotype")
    annotations = report.annotations
    for field, value in changes(annotations.said(), int(number), reviewer, form).items():
        annotations.add(int(number), reviewer, field, value, {int(n) for n in known})


def _context(view: FolderView, request: Request) -> dict[str, Any]:
    """What a page shows: the run, what was said about it, and what this reader asked for."""
    report = read_report(view.run)
    asked = request.query_params
    reviewer, blind = _reviewer(request), asked.get("blind") == "1"
    heard = report.annotations.said()
    if blind:
        heard = [one for one in heard if one.reviewer == reviewer]
        report = replace(report, phenotypes=_blinded(report.phenotypes, heard))
    path = request.url.path
    people = sorted({one.reviewer for one in heard if one.field == "verdict"})
    pairs = [agreement(heard, a, b) for a, b in combinations(people, 2)]
    shown = [p for p in report.phenotypes if _fits(p, asked)]
    order = ORDERS.get(asked.get("sort", ""), ORDERS["number"])
    groups = {} if blind else {**report.groups, **read_own_groups(view.run)}
    return {
        **page_context(report),
        "who": {p.number: who_has(groups, p.number) for p in shown},
        "charts": charts_of(report) if path == "/" else {},
        "phenotypes": sorted(shown, key=order), "numbers": [p.number for p in report.phenotypes],
        "here": path, "asked": asked, "blind": blind, "orders": list(ORDERS),
        "reviewer": reviewer, "said": latest(heard), "history": heard, "verdicts": VERDICTS,
        "agreements": [pair for pair in pairs if pair], "status_of": status_of,
        "experiments": view.experiments() if path in ("/experiments", "/compare") else [],
        "beside": _beside(view, asked.get("with", "")) if path == "/compare" else None,
        "folder": view.folder.name,
    }  # fmt: skip


def _own_context(view: FolderView, own: OwnPatients, request: Request) -> dict[str, Any]:
    """Who of this hospital has the phenotype that was asked for, and one patient's days."""
    phenotypes = read_report(view.run).phenotypes
    number, asked = (request.query_params.get(name, "") for name in ("phenotype", "patient"))
    if not all(word == "" or word.isdecimal() for word in (number, asked)):
        raise SettingsError("phenotype and patient are numbers")
    phenotype = next((p for p in phenotypes if str(p.number) == number), phenotypes[0])
    patient = int(asked) if asked else None
    return {
        "phenotypes": phenotypes, "phenotype": phenotype, "who": own.who(phenotype.number),
        "patient": patient, "rule": RULE, "most": MOST_LISTED, "grades": GRADE_WORDS,
        "timeline": [] if patient is None else own.timeline(patient, phenotype),
        "here": PATIENTS, "folder": view.folder.name,
    }  # fmt: skip


def _beside(view: FolderView, name: str) -> RunsCompared | None:
    """The shown run beside another one of the folder, by the other's name."""
    known = {one["name"] for one in view.experiments()}
    return compare_runs(view.run, view.folder / name) if name in known else None


def _blinded(phenotypes: Sequence[Phenotype], own: Sequence[Annotation]) -> list[Phenotype]:
    """Without evidence, origin, numbers, and what others said."""
    bare = [
        Phenotype(p.number, p.weight, p.share, p.codes, overlap=p.overlap, unknown=p.unknown,
                  guided=p.guided, named=p.named, led_by=p.led_by)
        for p in phenotypes
    ]  # fmt: skip
    return reviewed(bare, own)


def _reviewer(request: Request) -> str:
    """The name this browser last signed with."""
    try:
        return bytes.fromhex(request.cookies.get("reviewer", "")).decode()
    except ValueError:
        return ""


def _fits(phenotype: Phenotype, asked: Mapping[str, str]) -> bool:
    """Whether a phenotype is among those a reader asked for."""
    wanted, kind, grade = (asked.get(name, "") for name in ("q", "kind", "grade"))
    words = [phenotype.title, *(c.name for codes in phenotype.shown.values() for c in codes)]
    found = not wanted or any(wanted.lower() in word.lower() for word in words)
    origin = phenotype.claimed.kind if phenotype.claimed else ""
    return found and kind in ("", origin) and grade in ("", phenotype.grade)
