"""``tripheno compare``: two runs side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tripheno.cli.console import Format, FormatOption, out, print_json, table

LONGEST = 60  # characters of the codes that moved


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
    from tripheno.report.titles import shortened

    found = compare_runs(first, second)
    if page is not None:
        write_text(page, render_comparison(found))
    if form is Format.json:
        print_json(found.to_dict())
        return
    right = {first.name: False, second.name: False, "Similarity": True, "Codes moved": False}
    made = table("", right)
    for pair in found.matched:
        a, b = pair.first, pair.second
        moved = ", ".join([f"+{code}" for code in pair.gained] + [f"−{code}" for code in pair.lost])
        names = f"{a.number}. {a.title}", f"{b.number}. {b.title}"
        made.add_row(*names, f"{pair.similarity:.2f}", shortened(moved, LONGEST))
    for one in found.vanished:
        made.add_row(f"{one.number}. {one.title}", "vanished", "", "")
    for one in found.appeared:
        made.add_row("appeared", f"{one.number}. {one.title}", "", "")
    out().print(made)
    out().print(f"\nFactor match {found.fms:.3f}; {len(found.matched)} phenotypes are in both.")
    if found.differences:
        out().print(f"Not the same: {'; '.join(found.differences)}.")
