"""``tripheno export``: phenotypes for other programs and for reviewers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from tripheno.cli.console import Format, FormatOption, out, print_json

ExportName = Literal[
    "atlas", "valueset", "xlsx", "csv", "anndata", "parquet", "meds", "card", "slides"
]


def export(
    run: Annotated[Path, typer.Argument(help="Run folder.")],
    kind: Annotated[
        ExportName,
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

    target = out_dir or run.with_name(f"{run.resolve().name}-{kind}")
    written = export_run(run, kind, target, Wanted(unstable, concepts, scored, tuple(only or ())))
    if form is Format.json:
        print_json({"out": str(target), "files": [str(path) for path in written]})
        return
    out().print(f"{len(written)} file{'' if len(written) == 1 else 's'}: {target}")
