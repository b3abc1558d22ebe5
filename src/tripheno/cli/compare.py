"""``tripheno compare``: two runs side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tripheno.cli.console import Format, FormatOption, out, print_json, table


def compare(
    first: Annotated[Path, typer.Argument(help="Run folder.")],
    second: Annotated[Path, typer.Argument(help="Run folder to see beside it.")],
    page: Annotated[
        Path | None, typer.Option("--out", help="Write the comparison as an HTML page here too.")
    ] = None,
    form: FormatOption = Format.text,
) -> None:
    """Compare two runs: ranks, methods, seeds, sites. What stayed, appeared, vanished, moved."""
    from tripheno.files import write_text
    from tripheno.report.runs_compared import compare_runs, render_comparison

    found = compare_runs(first, second)
    if page is not None:
        write_text(page, render_comparison(found))
    if form is Format.json:
        print_json(found.to_dict())
        return
    made = table("", {first.name: False, second.name: False, "Similarity": True})
    for pair in found.matched:
        a, b = pair.first, pair.second
        made.add_row(f"{a.number}. {a.title}", f"{b.number}. {b.title}", f"{pair.similarity:.2f}")
    for one in found.vanished:
        made.add_row(f"{one.number}. {one.title}", "–", "")
    for one in found.appeared:
        made.add_row("–", f"{one.number}. {one.title}", "")
    out().print(made)
    out().print(f"\nFactor match {found.fms:.3f}; {len(found.matched)} phenotypes are in both.")
