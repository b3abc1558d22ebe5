"""``tripheno paper``: the seed paper's experiments, its numbers beside ours."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from tripheno.cli.console import Format, FormatOption, Progress, out, print_json
from tripheno.cli.simulate import ConstraintName

if TYPE_CHECKING:
    from tripheno.lab.paper.plan import PaperSettings

ExperimentName = Literal[
    "nonzeros", "hospitals", "skew", "case-mix", "phenotypes", "downstream", "all"
]
DataName = Literal["synthetic", "mimic", "eicu", "uci"]


def paper(
    experiment: Annotated[ExperimentName, typer.Argument(help="Which experiment.")],
    out_dir: Annotated[Path, typer.Option("--out", help="Folder for CSV, figures and page.")],
    path: Annotated[
        Path | None, typer.Argument(help="Folder of the tables, for --data mimic, eicu or uci.")
    ] = None,
    data: Annotated[
        DataName, typer.Option(help="Synthetic records of the paper's size, or a database.")
    ] = "synthetic",
    scale: Annotated[float, typer.Option(help="Share of the grids' patients (0 to 1).")] = 1.0,
    repeats: Annotated[int, typer.Option(help="Starts and splits to average over.", min=1)] = 10,
    rank: Annotated[int, typer.Option(help="Number of components.", min=1)] = 10,
    constraint: Annotated[
        ConstraintName, typer.Option(help="What factors may look like in the grids.")
    ] = "none",
    max_iter: Annotated[int, typer.Option(help="Most iterations.", min=1)] = 100,
    starts: Annotated[
        int, typer.Option(help="Starts of every model whose phenotypes are named.", min=1)
    ] = 16,
    seed: Annotated[int, typer.Option(help="Seed of records, splits and starts.", min=0)] = 0,
    jobs: Annotated[
        int,
        typer.Option(
            help="Processes that share the repeats; their seconds disturb each other. "
            "0: as many as cores at scales up to 0.05, else one.",
            min=0,
        ),
    ] = 0,
    share: Annotated[tuple[int, int], typer.Option(hidden=True)] = (0, 1),
    form: FormatOption = Format.text,
) -> None:
    """Run the seed paper's experiments. Interrupt at will: the same command goes on later."""
    from tripheno.lab.paper.plan import PaperSettings
    from tripheno.lab.paper.shares import at_work, jobs_for
    from tripheno.lab.paper_page import write_page

    settings = PaperSettings(
        data, path, scale, repeats, rank, constraint,
        max_iter=max_iter, seed=seed, starts=starts, share=share,
    )  # fmt: skip
    with at_work(out_dir, settings), Progress() as progress:
        if not settings.is_share and experiment != "downstream":
            _run_in_shares(experiment, out_dir, settings, jobs_for(settings, jobs), progress)
        _run(experiment, out_dir, settings, progress)
        if settings.is_share:
            return
        page = write_page(out_dir)
    _show(out_dir, page, form)


def _run_in_shares(
    experiment: ExperimentName,
    folder: Path,
    settings: PaperSettings,
    jobs: int,
    progress: Progress,
) -> None:
    """Let several processes measure, and gather what they or their forerunners have measured."""
    from tripheno.lab.paper.shares import deal, gather, run_shares

    gather(folder, settings)
    if jobs == 1:
        return
    deal(folder, settings, jobs)
    try:
        run_shares(folder, _words(experiment, settings), jobs, progress.say)
    finally:
        gather(folder, settings)


def _words(experiment: ExperimentName, settings: PaperSettings) -> list[str]:
    """The command that measures what these settings ask for."""
    words = ["paper", experiment]
    if settings.path is not None:
        words.append(str(settings.path))
    for name in ("data", "scale", "repeats", "rank", "constraint", "max_iter", "starts", "seed"):
        words += [f"--{name.replace('_', '-')}", str(getattr(settings, name))]
    return words


def _run(
    experiment: ExperimentName, folder: Path, settings: PaperSettings, progress: Progress
) -> None:
    from tripheno.lab.paper.running import GRIDS, Grids
    from tripheno.lab.paper_downstream import run_downstream
    from tripheno.lab.paper_phenotypes import run_phenotypes

    every = experiment == "all"
    if experiment == "downstream":
        run_downstream(folder, settings, progress.say)
        return
    if experiment != "phenotypes":
        Grids(folder, settings, progress.say).run(GRIDS if every else (experiment,))
    if every or experiment == "phenotypes":
        run_phenotypes(folder, settings, progress.say)


def _show(folder: Path, page: Path, form: Format) -> None:
    from tripheno.lab.paper.ledger import read_rows
    from tripheno.lab.paper_page import TITLES, verdicts

    rows = {name: read_rows(folder / f"{name}.csv") for name in TITLES}
    found: dict[str, Any] = {"page": str(page), **verdicts(rows)}
    if form is Format.json:
        print_json(found)
        return
    console = out()
    for name, words in (
        ("corrected", "TRIP corrected, worst gap to central"),
        ("exact", "exact, worst gap to central"),
        ("released", "TRIP released, worst gap to central"),
        ("local_least", "local where hospitals differ, least gap to central"),
        ("local_least_by_lot", "local where patients were split at random, least gap"),
    ):
        if found[name] is not None:
            console.print(f"{words}: {100 * found[name]:.3g} %")
    console.print(f"{found['rows']} rows · page: {page}")
