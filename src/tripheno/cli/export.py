"""``tripheno export`` and ``tripheno review``: phenotypes handed on, and verdicts taken back in."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from tripheno.cli.console import Format, FormatOption, out, print_json


class ExportChoice(StrEnum):
    """Where the phenotypes go."""

    atlas = "atlas"
    valueset = "valueset"
    xlsx = "xlsx"
    csv = "csv"
    anndata = "anndata"
    parquet = "parquet"
    meds = "meds"
    card = "card"
    slides = "slides"


def export(
    run: Annotated[Path, typer.Argument(help="Run folder.")],
    kind: Annotated[
        ExportChoice,
        typer.Option(
            "--as",
            help="OHDSI cohort definitions, FHIR ValueSets, Excel or CSV with a reviewer's sheet, "
            "AnnData, Parquet, MEDS, a model card, or PowerPoint slides.",
        ),
    ],
    out_dir: Annotated[
        Path | None, typer.Option("--out", help="Folder; RUN-<format> if not given.")
    ] = None,
    unstable: Annotated[
        bool, typer.Option("--unstable", help="Hand on unstable phenotypes too.")
    ] = False,
    concepts: Annotated[
        Path | None,
        typer.Option(help="OMOP's CONCEPT.csv or .parquet, for codes that are no concept ids."),
    ] = None,
    scored: Annotated[
        Path | None,
        typer.Option(help="Folder of `transform`: patients too, for AnnData and MEDS."),
    ] = None,
    only: Annotated[
        list[int] | None,
        typer.Option(help="Only this phenotype, by its number; may be given again.", min=1),
    ] = None,
    form: FormatOption = Format.text,
) -> None:
    """Hand a run's phenotypes on, under the names people gave them."""
    from tripheno.report.exports.chosen import Wanted
    from tripheno.report.exports.write import export_run

    target = out_dir or run.with_name(f"{run.resolve().name}-{kind.value}")
    written = export_run(
        run, kind.value, target, Wanted(unstable, concepts, scored, tuple(only or ()))
    )
    if form is Format.json:
        print_json({"out": str(target), "files": [str(path) for path in written]})
        return
    out().print(f"{len(written)} files: {target}")


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
    out().print(f"{taken['added']} statements about {taken['phenotypes']} phenotypes were added.")
