"""The pages: Federation, Phenotypes, Compare, Experiments, Privacy."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any

from jinja2 import ChoiceLoader, PackageLoader
from starlette.applications import Starlette
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

from tripheno.dashboard.annotations import (
    VERDICTS,
    agreement,
    annotate,
    as_csv,
    latest,
    names_of,
    read_annotations,
)
from tripheno.dashboard.guard import Guard
from tripheno.dashboard.live import follow
from tripheno.errors import SettingsError, TriphenoError
from tripheno.progress import STATUS, read_status
from tripheno.report.page import charts_of, environment, page_context
from tripheno.report.phenotypes import Phenotype
from tripheno.report.run_folder import read_report, read_summary

HERE = Path(__file__).parent
PAGES = {
    "/": "Federation", "/phenotypes": "Phenotypes", "/compare": "Compare",
    "/experiments": "Experiments", "/privacy": "Privacy",
}  # fmt: skip


@dataclass(frozen=True)
class Desk:
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
            return top / "trip" if read_summary(top)["method"] == "all" else top
        status = read_status(top)
        return top / "trip" if status and status["run"] == "trip" else top

    def unfinished(self) -> dict[str, Any] | None:
        """The status of a run that has no result yet; nothing for one that is complete."""
        top = self.top
        return None if (top / "run.json").is_file() else read_status(top)

    @property
    def annotations(self) -> Path:
        """Where reviewers' words are kept."""
        return self.run / "annotations.jsonl"

    def experiments(self) -> list[dict[str, Any]]:
        """Every run in the folder and one level below."""
        paths = sorted([*self.folder.glob("run.json"), *self.folder.glob("*/run.json")])
        found = [(path.parent, read_summary(path.parent)) for path in paths]
        return [{"name": folder.name, **summary} for folder, summary in found if "rmse" in summary]


def make_app(folder: Path, token: str, hosts: Iterable[str]) -> Starlette:
    """The dashboard over a run or study folder."""
    desk = Desk(folder)
    if desk.unfinished() is None:
        read_report(desk.run)  # a folder that is no run is refused before the first page
    templates = environment()
    templates.loader = ChoiceLoader(
        [PackageLoader("tripheno.dashboard"), PackageLoader("tripheno.report")]
    )

    def page(request: Request) -> Response:
        path = request.url.path
        status = desk.unfinished()
        if status is not None:
            context = {"pages": PAGES, "here": path, "folder": desk.folder.name, "status": status}
            return HTMLResponse(templates.get_template("running.html").render(**context))
        template = templates.get_template(f"{PAGES[path].lower()}.html")
        return HTMLResponse(template.render(**_context(desk, request)))

    async def said(request: Request) -> Response:
        form = {key: str(value) for key, value in (await request.form()).items()}
        number = form.get("phenotype", "")
        fields = [key for key in ("name", "verdict", "comment") if key in form]
        known = {str(p.number) for p in read_report(desk.run).phenotypes}
        if number not in known:
            raise SettingsError("no such phenotype")
        for field in fields:
            if form[field].strip() != form.get(f"was_{field}", ""):  # only what this tab changed
                await run_in_threadpool(
                    annotate, desk.annotations, int(number), form.get("reviewer", ""), field,
                    form[field],
                )  # fmt: skip
        answer = RedirectResponse(f"/phenotypes#phenotype-{number}", 303)
        answer.set_cookie("reviewer", form.get("reviewer", "").strip().encode().hex(),
                          samesite="strict", httponly=True)  # fmt: skip
        return answer

    def export(_request: Request) -> Response:
        text = as_csv(read_annotations(desk.annotations))
        name = {"content-disposition": 'attachment; filename="annotations.csv"'}
        return PlainTextResponse(text, media_type="text/csv", headers=name)

    def live(request: Request) -> Response:
        ending = getattr(request.app.state, "ending", lambda: False)
        events = follow(desk.top, desk.run, ending)
        return StreamingResponse(events, media_type="text/event-stream")

    routes = [
        *(Route(path, page) for path in PAGES),
        Route("/annotate", said, methods=["POST"]),
        Route("/annotations.csv", export),
        Route("/live", live),
        Mount("/static", StaticFiles(directory=HERE / "static")),
    ]
    guard = Middleware(Guard, token=token, hosts=tuple(hosts))
    return Starlette(
        routes=routes, middleware=[guard], exception_handlers={TriphenoError: _in_words}
    )


def _in_words(_request: Request, fault: Exception) -> Response:
    return PlainTextResponse(str(fault), 400)


def _context(desk: Desk, request: Request) -> dict[str, Any]:
    """What a page shows: the run, what was said about it, and what this reader asked for."""
    report = read_report(desk.run)
    every = read_annotations(desk.annotations)
    reviewer = _reviewer(request)
    blind = request.query_params.get("blind") == "1"
    heard = [one for one in every if not blind or one.reviewer == reviewer]
    names = names_of(heard)
    named = [replace(p, name=names.get(p.number, p.name)) for p in report.phenotypes]
    if blind:
        named = [
            replace(p, origin=None, prevalence=None, stability=None, stability_halves=None)
            for p in named
        ]
    wanted, kind = request.query_params.get("q", ""), request.query_params.get("kind", "")
    report = replace(report, phenotypes=named)
    path = request.url.path
    people = sorted({one.reviewer for one in heard if one.field == "verdict"})
    pairs = [agreement(heard, a, b) for a, b in combinations(people, 2)]
    return {
        **page_context(report),
        "charts": charts_of(report) if path == "/" else {},
        "phenotypes": [p for p in named if _fits(p, wanted, kind)],
        "pages": PAGES, "here": path, "q": wanted, "kind": kind, "blind": blind,
        "reviewer": reviewer, "said": latest(heard), "verdicts": VERDICTS,
        "agreements": [pair for pair in pairs if pair],
        "experiments": desk.experiments() if path == "/experiments" else [],
        "folder": desk.folder.name,
    }  # fmt: skip


def _reviewer(request: Request) -> str:
    """The name this browser last signed with."""
    try:
        return bytes.fromhex(request.cookies.get("reviewer", "")).decode()
    except ValueError:
        return ""


def _fits(phenotype: Phenotype, wanted: str, kind: str) -> bool:
    words = [phenotype.title, *(c.name for codes in phenotype.codes.values() for c in codes)]
    found = not wanted or any(wanted.lower() in word.lower() for word in words)
    return found and (not kind or (phenotype.origin is not None and phenotype.origin.kind == kind))
