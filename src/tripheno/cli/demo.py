"""``tripheno demo``: three synthetic hospitals, and what they find together."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from tripheno.cli.console import (
    Format,
    FormatOption,
    Progress,
    out,
    print_json,
    spoken_warnings,
    table,
)
from tripheno.cli.simulate import comparison_table


def demo(
    out_dir: Annotated[Path, typer.Option("--out", help="Folder for the run.")] = Path(
        "tripheno-demo"
    ),
    seed: Annotated[int, typer.Option(help="Seed of the hospitals and of the starts.", min=0)] = 0,
    force: Annotated[bool, typer.Option("--force", help="Replace a run in that folder.")] = False,
    form: FormatOption = Format.text,
) -> None:
    """Three synthetic hospitals find together the phenotypes that pooled data would show."""
    from tripheno.lab.demonstration import demonstrate
    from tripheno.report.run_folder import check_folder

    started = time.perf_counter()
    check_folder(out_dir, replace=force)
    with Progress() as progress, spoken_warnings():
        result = demonstrate(out_dir, seed, started, progress.say, progress.iteration)
    if form is Format.json:
        print_json({**result["summary"], "planted": result["planted"]})
        return
    _show(result, out_dir)


def _show(result: dict[str, Any], folder: Path) -> None:
    console = out()
    console.print("\nPhenotypes found together (exact, three hospitals)", style="bold")
    found = table("", {"": True, "Share": True, "Planted as": False, "Leading codes": False})
    for row in result["phenotypes"]:
        found.add_row(
            str(row["phenotype"]), f"{100 * row['share']:.1f} %", row["planted"] or "(not planted)",
            row["words"],
        )  # fmt: skip
    console.print(found)
    console.print("\nWhere each planted phenotype is seen", style="bold")
    hospitals = result["hospitals"]
    where = table("", {"": False, "Together": False, **dict.fromkeys(hospitals, False)})
    for row in result["planted"]:
        marks = ["yes" if row["alone"][name] else "·" for name in hospitals]
        where.add_row(row["name"], row["grade"] or "·", *marks)
    console.print(where)
    console.print("\nHow close to pooled data", style="bold")
    console.print(comparison_table(result["comparison"]))
    for sentence in result["sentences"]:
        console.print(f"\n{sentence}")
    console.print(f"\nRun folder: {folder}  (report: {folder / 'report.html'})")
