"""``tripheno transform``: new patients on frozen phenotypes, locally."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tripheno.cli.console import Format, FormatOption, note, out, print_json, table


def transform(
    run: Annotated[Path, typer.Argument(help="Run folder whose phenotypes are used.")],
    events: Annotated[
        Path, typer.Argument(help="Site folder, event table, cells or .tns of the new patients.")
    ],
    out_dir: Annotated[
        Path, typer.Option("--out", help="Folder for the patients' rows; only you may open it.")
    ],
    form: FormatOption = Format.text,
) -> None:
    """Score new patients, or a hospital that took no part, on the phenotypes of a run."""
    from tripheno.report.cohorts import COHORT, MEMBERSHIPS, score, write_scored

    scored = score(run, events)
    summary = write_scored(out_dir, scored, run)
    for mode, count in summary["unknown_codes"].items():
        if count["unknown"]:
            note(
                f"{count['unknown']:,} of {count['of']:,} {mode} codes are unknown to these "
                "phenotypes and are left out"
            )
    if form is Format.json:
        print_json(summary)
        return
    found = table("", {"": True, "Phenotype": False, "Patients here": True})
    for row in summary["phenotypes"]:
        found.add_row(str(row["phenotype"]), row["title"], f"{row['patients']:,}")
    console = out()
    console.print(found)
    console.print(
        f"\n{summary['patients_with_a_phenotype']:,} of {summary['patients']:,} patients have a "
        f"phenotype: {summary['rule']}."
    )
    console.print(
        f"Patients' rows, not to leave this hospital: {out_dir}  ({MEMBERSHIPS}, {COHORT})"
    )
