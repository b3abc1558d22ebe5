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
    from tripheno.files import write_text
    from tripheno.report.page import render_page
    from tripheno.report.run_folder import read_report

    target = page or run / "report.html"
    text = render_page(read_report(run))
    write_text(target, text)
    if form is Format.json:
        print_json({"report": str(target), "bytes": len(text.encode())})
        return
    out().print(f"Report: {target}")
