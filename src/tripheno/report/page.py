"""The offline page: one self-contained file, no script, no network."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import floor
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from tripheno.files import csv_text, write_text
from tripheno.privacy.prevalence import MIN_CELL
from tripheno.report.annotations import groups
from tripheno.report.charts import (
    as_svg,
    convergence_chart,
    overview_chart,
    prevalence_chart,
    residual_chart,
)
from tripheno.report.messages import what_left
from tripheno.report.phenotypes import GRADES, Phenotype
from tripheno.report.rule import RULE
from tripheno.report.run_folder import Report, phenotype_rows, read_report, shown_folder
from tripheno.report.summary import how_many, names_of, sentences
from tripheno.report.titles import apart, brief, plain, readable, shortened
from tripheno.report.who import outcomes, who_has

KINDS = {
    "together": "only together",
    "one": "one hospital",
    "several": "several hospitals",
    "everywhere": "every hospital",
}
ORDERS: dict[str, Callable[[Phenotype], Any]] = {
    "number": lambda p: p.number,
    "title": lambda p: p.title.casefold(),
    "grade": lambda p: (GRADES.index(p.grade) if p.grade in GRADES else len(GRADES), p.number),
    "patients": lambda p: (-((p.prevalence and p.prevalence.total) or 0), p.number),
}
GRADE_WORDS = {"stable": "stable", "partly": "partly stable", "unstable": "unstable"}
LONGEST_AXIS_LABEL, AXIS_LABEL_END = 42, 14
LONGEST_CODE = 26  # letters of a code above its column
MOST_CELLS = 26  # columns of the overview, unless there are more phenotypes


def environment() -> Environment:
    """The templates: every value is text until a template says otherwise."""
    made = Environment(
        loader=PackageLoader("tripheno.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    long = Markup(' class="long" tabindex="0"')
    made.filters |= {
        "percent": percent, "signed": signed_percent, "reached": reached, "plain": plain,
        "apart": apart, "pair": lambda word: (word, word),
        "long": lambda text: long if len(text) > 120 else "",
        "thousands": lambda number: f"{number:,}",
    }  # fmt: skip
    return made


def reached(match: float) -> str:
    """A match rounded down: what is below a threshold is not shown as if it were not."""
    return f"{floor(100 * match + 1e-9) / 100:.2f}"


def percent(share: float, digits: int = 0) -> str:
    """A share in percent; what is not nothing is never shown as nothing."""
    least = 10.0**-digits
    if 0.0 < 100 * share < least / 2:
        return f"< {least:.{digits}f} %"
    return f"{abs(100 * share) if abs(100 * share) < least / 2 else 100 * share:.{digits}f} %"


def signed_percent(share: float, digits: int = 3) -> str:
    """A difference in percent with its sign, and none where it rounds to nothing."""
    shown = f"{100 * share:+.{digits}f} %"
    return shown if any(digit in shown for digit in "123456789") else f"{0:.{digits}f} %"


def page_context(report: Report) -> dict[str, Any]:
    """Everything the templates show of a run."""
    methods: list[dict[str, Any]] = report.comparison.get("methods", [])
    shares = [c.share for p in report.phenotypes for codes in p.shown.values() for c in codes]
    return {
        "run": report.run,
        "run_id": report.annotations.run,
        "foreign": report.annotations.of_other_runs(),
        "phenotypes": report.phenotypes,
        "top_share": max(shares, default=1.0) or 1.0,
        "places": {name: _places(report.phenotypes, key) for name, key in ORDERS.items()},
        "grades": GRADE_WORDS,
        "comparison": methods if all(row["rmse_gap"] is not None for row in methods) else [],
        "table": _models(report),
        "sentences": sentences(report),
        "resamples": report.run.get("evidence", {}).get("resamples", 0),
        "rule": RULE,
        "fewest": fewest_of(report.phenotypes),
        "left": what_left(report.run),
        "who": {p.number: who_has(report.groups, p.number) for p in report.phenotypes},
        "outcomes": outcomes(report.groups, report.phenotypes),
        "brought": {p.number: [o.number for o in own[1:]] for p, own in groups(report.phenotypes)},
        "kinds": KINDS,
        "hospitals": names_of(report.run),
        "how_many": how_many(report.run),
    }


def _models(report: Report) -> dict[str, Any] | None:
    """The table of models under the names people gave; no origin that is not claimed.

    Which models have an unstable one is not shown either: it would say the same. Those that too few
    patients stand behind are counted.
    """
    table: dict[str, Any] | None = report.comparison.get("table")
    if not table:
        return None
    shown = {p.number: p for p in report.phenotypes}
    rows, alone = [], []
    for row in table["rows"]:
        lead, *others = row["cells"]
        phenotype = shown.get(lead["rank"]) if lead else None
        if phenotype is None:
            alone.append(row)
        elif phenotype.named:
            kind = phenotype.claimed.kind if phenotype.claimed else None
            others = [] if phenotype.grade == "unstable" else others
            cells = [{**lead, "title": phenotype.title}, *others]
            rows.append({**row, "cells": cells, "kind": kind, "grade": phenotype.grade})
    few = sum(not p.named for p in report.phenotypes)
    return {**table, "rows": rows, "alone": alone, "few": few}


def fewest_of(phenotypes: Sequence[Phenotype]) -> int:
    """Counts of fewer people are withheld in this run."""
    return next((p.prevalence.min_cell for p in phenotypes if p.prevalence), MIN_CELL)


def _places(phenotypes: Sequence[Phenotype], key: Callable[[Phenotype], Any]) -> dict[int, int]:
    """Phenotype → its place in an order, from 1."""
    return {p.number: place for place, p in enumerate(sorted(phenotypes, key=key), start=1)}


def charts_of(report: Report) -> dict[str, Markup]:
    """The page's charts as inline SVG, by name."""
    made = {}
    if len(report.history) > 1:
        made["convergence"] = _inline(
            convergence_chart(report.history), "Objective by iteration, falling as the run settles"
        )
        residuals = residual_chart(report.history)
        if residuals is not None:
            made["residuals"] = _inline(residuals, "Primal and dual residuals by iteration")
    shares = prevalence_rows(report)
    if sum(p.named for p in report.phenotypes) > 1:
        made["overview"] = _inline(
            overview_of(report),
            "Phenotypes by their leading codes, and how common they are at each hospital",
        )
    if any(row["share"] for row in shares):
        made["prevalence"] = _inline(
            prevalence_chart(shares), "Share of each hospital’s patients who have each phenotype"
        )
    return made


def render_page(report: Report) -> str:
    """The report of a run as HTML."""
    template = environment().get_template("report.html")
    return template.render(**page_context(report), charts=charts_of(report))


def write_page(folder: Path, target: Path | None = None) -> Path:
    """The page of a run, and ``phenotypes.csv``, made again with the names people gave since.

    Of several methods in one folder also the page of the method that is shown. Where ``target`` is
    given, the page goes there and the run folder is left as it is.
    """
    report, shown = read_report(folder), shown_folder(folder)
    text = render_page(report)
    if target is None:
        write_text(shown / "phenotypes.csv", csv_text(phenotype_rows(report.phenotypes)))
    pages = [target] if target else [place / "report.html" for place in {folder, shown}]
    for page in pages:
        write_text(page, text)
    return target or folder / "report.html"


def _inline(chart: Any, label: str) -> Markup:
    return Markup(as_svg(chart, label))  # noqa: S704  drawn by us, its texts escaped as XML


def axis_label(phenotype: Phenotype) -> str:
    """A phenotype's number and title, short enough for an axis.

    What tells two titles apart is often their end, so a long one is cut in the middle.
    """
    title, end = phenotype.title, ""
    if len(title) > LONGEST_AXIS_LABEL:
        title, end = title[:-AXIS_LABEL_END], title[-AXIS_LABEL_END:].lstrip()
    return f"{phenotype.number}. {shortened(title, LONGEST_AXIS_LABEL - len(end))}{end}"


def prevalence_rows(report: Report) -> list[dict[str, Any]]:
    """Phenotype, hospital and the share of its patients, none where it is withheld."""
    return [
        {"phenotype": axis_label(phenotype), "hospital": hospital, "share": share}
        for phenotype in report.phenotypes
        if phenotype.prevalence is not None and phenotype.named
        for hospital, share in phenotype.prevalence.share.items()
    ]


def overview_of(report: Report) -> Any:
    """The overview of the phenotypes whose codes may be shown."""
    telling = [p for p in report.phenotypes if p.named]
    order = [axis_label(p) for p in telling]
    beside = [row for row in prevalence_rows(report) if row["phenotype"] in order]
    return overview_chart(*overview_rows(telling), beside, order)


def overview_rows(phenotypes: Sequence[Phenotype]) -> tuple[list[str], list[dict[str, Any]]]:
    """The columns of the overview in order, and its cells: the most telling codes of each."""
    each = max(1, MOST_CELLS // max(1, len(phenotypes)))
    chosen: dict[tuple[str, int], str] = {}
    for phenotype in phenotypes:
        ranked = sorted(
            (-c.share * c.specificity, mode, c.position, c.name)
            for mode, codes in phenotype.codes.items()
            for c in codes
        )
        for _, mode, position, name in ranked[:each]:
            if (mode, position) not in chosen:
                known = name or "not known here"
                ways = [shortened(way(known), LONGEST_CODE) for way in (brief, readable)]
                free = [way for way in ways if way not in chosen.values()]
                chosen[mode, position] = (*free, f"{ways[0]} ({mode} {position})")[0]
    cells = [
        {"phenotype": axis_label(p), "code": chosen[mode, c.position], "share": c.share}
        for p in phenotypes
        for mode, codes in p.codes.items()
        for c in codes
        if (mode, c.position) in chosen
    ]
    return list(chosen.values()), cells
