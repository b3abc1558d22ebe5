"""``tripheno report``: the offline page of a run, made again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tripheno.cli.console import Format, FormatOption, out, print_json


def report(
    run: Annotated[Path, typer.Argument(help="Run folder.")],
    page: Annotated[
        Path | None,
        typer.Option("--out", help="File to write; report.html of the run if not given."),
    ] = None,
    form: FormatOption = Format.text,
) -> None:
    """Write the offline page of a run: one file, no network, no script."""
    from tripheno.report.page import write_page

    target = write_page(run, page)
    if form is Format.json:
        print_json({"report": str(target), "bytes": target.stat().st_size})
        return
    out().print(f"Report: {target}")
