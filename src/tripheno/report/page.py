"""The offline page: one self-contained file, no script, no network."""

from __future__ import annotations

from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from tripheno.report.phenotypes import Phenotype


def render_page(
    summary: dict[str, Any], phenotypes: list[Phenotype], comparison: list[dict[str, Any]]
) -> str:
    """The report of a run as HTML."""
    environment = Environment(
        loader=PackageLoader("tripheno.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    template = environment.get_template("report.html")
    return template.render(run=summary, phenotypes=phenotypes, comparison=comparison)
