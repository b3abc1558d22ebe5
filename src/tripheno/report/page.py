"""The offline page: one self-contained file, no script, no network."""

from __future__ import annotations

from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from tripheno.report.run_folder import Report


def render_page(report: Report) -> str:
    """The report of a run as HTML."""
    environment = Environment(
        loader=PackageLoader("tripheno.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    template = environment.get_template("report.html")
    methods: list[dict[str, Any]] = report.comparison.get("methods", [])
    shown = methods if all(row["rmse_gap"] is not None for row in methods) else []
    return template.render(run=report.run, phenotypes=report.phenotypes, comparison=shown)
