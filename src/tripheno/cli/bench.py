"""``tripheno bench``: how fast is it on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tripheno.cli.console import Format, FormatOption, Progress, out, print_json


def bench(
    quick: Annotated[
        bool, typer.Option("--quick", help="A tenth of the patients; under two minutes.")
    ] = False,
    folder: Annotated[
        Path | None, typer.Option("--out", help="Folder for benchmarks.json, .md and .svg.")
    ] = None,
    form: FormatOption = Format.text,
) -> None:
    """Measure kernels, building and whole fits, as ratios to other tools that are installed."""
    from tripheno.lab.benchmark import QUICK, BenchmarkPlan, measured
    from tripheno.lab.benchmark_table import write

    with Progress() as progress:
        for found in measured(QUICK if quick else BenchmarkPlan(), progress.say):
            page = write(found, folder)
    if form is Format.json:
        print_json(found)
        return
    out().print(page)
