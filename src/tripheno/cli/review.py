"""``tripheno review``: a reviewer's sheet, read back in."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tripheno.cli.console import Format, FormatOption, out, print_json


def review(
    run: Annotated[Path, typer.Argument(help="Run folder.")],
    sheet: Annotated[Path, typer.Argument(help="Filled-in review.csv or phenotypes.xlsx.")],
    reviewer: Annotated[str, typer.Option(help="Who signs rows that name no reviewer.")] = "",
    form: FormatOption = Format.text,
) -> None:
    """Read a reviewer's sheet back in; the report and tables of the run are made again."""
    from tripheno.report.page import write_page
    from tripheno.report.run_folder import read_report
    from tripheno.report.sheet import take_sheet

    taken = take_sheet(read_report(run), sheet, reviewer)
    write_page(run)
    if form is Format.json:
        print_json(taken)
        return
    said, about = taken["added"], taken["phenotypes"]
    were = "statement was" if said == 1 else "statements were"
    of = f"phenotype{'' if about == 1 else 's'}"
    out().print(f"{said} {were} added, about {about} {of}.")
