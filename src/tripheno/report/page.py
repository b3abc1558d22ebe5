"""The offline page: one self-contained file, no script, no network."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from tripheno.progress import spoken
from tripheno.report.charts import as_svg, convergence_chart, prevalence_chart, residual_chart
from tripheno.report.messages import what_left
from tripheno.report.run_folder import Report
from tripheno.report.summary import sentences

KINDS = {
    "together": "only together",
    "one": "one hospital",
    "several": "several hospitals",
    "everywhere": "every hospital",
}
LONGEST_AXIS_LABEL = 42


def environment() -> Environment:
    """The templates: every value is text until a template says otherwise."""
    made = Environment(
        loader=PackageLoader("tripheno.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["percent"] = lambda share, digits=0: f"{100 * share:.{digits}f} %"
    made.filters["long"] = lambda text: Markup(' class="long"') if len(text) > 120 else ""
    made.filters["thousands"] = lambda number: f"{number:,}"
    made.filters["spoken"] = spoken
    return made


def page_context(report: Report) -> dict[str, Any]:
    """Everything the templates show of a run."""
    methods: list[dict[str, Any]] = report.comparison.get("methods", [])
    return {
        "run": report.run,
        "phenotypes": report.phenotypes,
        "comparison": methods if all(row["rmse_gap"] is not None for row in methods) else [],
        "table": report.comparison.get("table"),
        "sentences": sentences(report),
        "left": what_left(report.run),
        "kinds": KINDS,
        "hospitals": [hospital["name"] for hospital in report.run["hospitals"]],
    }


def charts_of(report: Report) -> dict[str, Markup]:
    """The page's charts as inline SVG, by name."""
    made = {}
    if len(report.history) > 1:
        made["convergence"] = _inline(
            convergence_chart(report.history), "Error by iteration, falling as the run settles"
        )
        residuals = residual_chart(report.history)
        if residuals is not None:
            made["residuals"] = _inline(residuals, "Primal and dual residuals by iteration")
    shares = list(_shares(report))
    if any(row["share"] is not None for row in shares):
        made["prevalence"] = _inline(
            prevalence_chart(shares), "Share of each hospital’s patients who have each phenotype"
        )
    return made


def render_page(report: Report) -> str:
    """The report of a run as HTML."""
    template = environment().get_template("report.html")
    return template.render(**page_context(report), charts=charts_of(report))


def _inline(chart: Any, label: str) -> Markup:
    return Markup(as_svg(chart, label))  # noqa: S704  drawn by us, its texts escaped as XML


def _shares(report: Report) -> Iterator[dict[str, Any]]:
    for phenotype in report.phenotypes:
        if phenotype.prevalence is None:
            continue
        title = phenotype.title
        short = title if len(title) <= LONGEST_AXIS_LABEL else title[:LONGEST_AXIS_LABEL] + "…"
        for hospital, share in phenotype.prevalence.share.items():
            label = f"{phenotype.number}. {short}"
            yield {"phenotype": label, "hospital": hospital, "share": share}
