"""``tripheno simulate``: a whole federation in one process."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

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
from tripheno.errors import SettingsError

if TYPE_CHECKING:
    from tripheno.study.simulation import Federation

MethodName = Literal["trip", "exact", "central", "local"]
VariantName = Literal["corrected", "printed", "released"]
ConstraintName = Literal["nonnegative", "sparse", "none"]
LossName = Literal["squared", "poisson"]
InfluenceName = Literal["bounded", "none"]
PrecisionName = Literal["double", "single"]
SumsName = Literal["blind", "plain"]
AlignName = Literal["tokens", "vocabulary", "polynomial"]


def simulate(
    sites: Annotated[
        list[Path],
        typer.Argument(
            help="Site folders, event tables, cells (Parquet, CSV) or .tns files; one a hospital."
        ),
    ],
    out_dir: Annotated[Path, typer.Option("--out", help="Folder for the run.")],
    rank: Annotated[int, typer.Option(help="Number of phenotypes.", min=1)] = 10,
    method: Annotated[
        Literal[MethodName, "all"],
        typer.Option(help="Method; all runs the four beside each other."),
    ] = "exact",
    hospitals: Annotated[
        int | None, typer.Option(help="Deal one site's patients to this many hospitals.", min=1)
    ] = None,
    skew: Annotated[
        float | None, typer.Option(help="Share of patients at the first of them (0 to 1).")
    ] = None,
    variant: Annotated[VariantName, typer.Option(help="Reading of the paper.")] = "corrected",
    constraint: Annotated[
        ConstraintName, typer.Option(help="What factors may look like.")
    ] = "nonnegative",
    loss: Annotated[
        LossName, typer.Option(help="What a good fit is; poisson takes counts as counts.")
    ] = "squared",
    precision: Annotated[
        PrecisionName,
        typer.Option(help="Of products with the data; single is faster, final sums stay double."),
    ] = "double",
    seed: Annotated[int, typer.Option(help="Seed of the start and of the split.", min=0)] = 0,
    max_iter: Annotated[int, typer.Option(help="Most iterations.", min=1)] = 100,
    tol: Annotated[float, typer.Option(help="Relative change of the objective to stop at.")] = 1e-6,
    starts: Annotated[
        int,
        typer.Option(help="Starts of the tournament; 1: one random start.", min=1, max=40),
    ] = 16,
    influence: Annotated[
        InfluenceName,
        typer.Option(help="Bounded: no patient counts for more than the typical one."),
    ] = "bounded",
    track_rmse: Annotated[
        bool,
        typer.Option("--track-rmse", help="Measure the error over nonzeros at every iteration."),
    ] = False,
    bias: Annotated[bool, typer.Option(help="Add a rank-1 bias that is no phenotype.")] = False,
    consensus_penalty: Annotated[
        float | None, typer.Option(help="ω; follows the data when not given.")
    ] = None,
    split_penalty: Annotated[
        float | None, typer.Option(help="μ; follows the distinctness when not given.")
    ] = None,
    distinctness: Annotated[float, typer.Option(help="λ, as the paper prints it.")] = 0.0,
    relative_distinctness: Annotated[
        float, typer.Option(help="λ as a multiple of ‖O‖²/R, so that it acts on any data.")
    ] = 0.0,
    sums: Annotated[
        SumsName | None,
        typer.Option(
            help="How contributions are added.", show_default="blind from three hospitals on"
        ),
    ] = None,
    align: Annotated[
        AlignName, typer.Option(help="How hospitals agree on common axes.")
    ] = "tokens",
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Accept that --align polynomial shows code lists.")
    ] = False,
    min_cell: Annotated[
        int | None,
        typer.Option(help="Drop codes that fewer people than this have, network-wide.", min=1),
    ] = None,
    keep_carriers: Annotated[
        bool, typer.Option("--keep-carriers", help="Fluids that only carry a drug take part.")
    ] = False,
    common_share: Annotated[
        float,
        typer.Option(
            help="Set aside codes that more than this share of all patients has; 1: none.",
            min=0.01,
            max=1.0,
        ),
    ] = 0.9,
    guide: Annotated[
        Path | None,
        typer.Option(help="TOML file with codes that phenotypes start from and are pulled to."),
    ] = None,
    guide_pull: Annotated[
        float, typer.Option(help="How strongly, as a multiple of ‖O‖²/R; 0: start only.", min=0.0)
    ] = 0.03,
    compare: Annotated[
        bool, typer.Option(help="Run central and local too, to compare with.")
    ] = True,
    resamples: Annotated[
        int,
        typer.Option(
            help="Resamples of the patients to see what comes back; 0: none.", min=0, max=50
        ),
    ] = 10,
    shards: Annotated[
        int, typer.Option(help="Deal each hospital's patients to so many processes.", min=1)
    ] = 1,
    force: Annotated[bool, typer.Option("--force", help="Replace a run in that folder.")] = False,
    form: FormatOption = Format.text,
) -> None:
    """Run a federation of one machine's files, and compare it with pooled data."""
    from tripheno.protocol.agreed import SetAside
    from tripheno.report.run_folder import SHOWN, check_folder
    from tripheno.report.simulated import run_simulation
    from tripheno.report.sites import read_sites
    from tripheno.report.summary import hospitals_among
    from tripheno.solver.guides import read_guides
    from tripheno.solver.settings import Method, SolverSettings
    from tripheno.study.beforehand import check_before
    from tripheno.study.sharding import shards_of
    from tripheno.study.simulation import Simulation, assemble

    started = time.perf_counter()
    if variant != "corrected" and method not in ("trip", "all"):
        raise SettingsError(
            f"--variant {variant} with --method {method}",
            fix="variants are readings of the paper's method: add --method trip",
        )
    settings = SolverSettings(
        rank, SHOWN if method == "all" else method, variant, constraint, loss,
        precision=precision, seed=seed, max_iter=max_iter, tol=tol, starts=starts,
        influence=influence, track_rmse=track_rmse, bias=bias,
        consensus_penalty=consensus_penalty, split_penalty=split_penalty,
        distinctness=distinctness, relative_distinctness=relative_distinctness,
        guides=read_guides(guide) if guide else (), guide_pull=guide_pull,
    )  # fmt: skip
    if hospitals is None and skew is not None:
        raise SettingsError("--skew without --hospitals", fix="say how many hospitals to make")
    check_folder(out_dir, replace=force)
    with Progress() as progress, spoken_warnings(), shards_of(shards) as pool:
        found = read_sites(sites, hospitals, skew, seed)
        check_before(found.tensors, rank, dealt_out=hospitals is not None)
        federation = assemble(
            found.tensors, align, seed=seed, insecure=insecure, min_cell=min_cell,
            rule=SetAside(not keep_carriers, common_share),
        )  # fmt: skip
        federation = replace(federation, traits=found.traits, left_out=found.left_out)
        if pool is not None:
            own = {name: pool.place(tensor) for name, tensor in federation.tensors.items()}
            federation = replace(federation, tensors=own)
        for line in _not_taking_part(federation):
            progress.say(line)
        if min_cell is not None:
            progress.say(_removed_in_words(federation.codes_removed, min_cell))
        progress.say(
            f"{hospitals_among(federation.tensors)}, {federation.nonzeros:,} cells, "
            f"axes agreed in {federation.alignment_seconds:.2f} s"
        )
        beside: tuple[Method, ...] = ("central", "local") if compare else ()
        study = Simulation(
            federation, settings, found.inputs, every=method == "all", beside=beside,
            sums=sums, resamples=resamples,
        )  # fmt: skip
        result = run_simulation(study, out_dir, started, announce=progress.iteration)
    show(result, out_dir, form)


def _not_taking_part(federation: Federation) -> Iterator[str]:
    """Hospitals and codes that are left out, in a line each."""
    for name, why in federation.left_out.items():
        yield f"{name} takes no part: {why}"
    for name, codes in federation.lacks.items():
        yield f"{name} has none of {len(codes):,} codes that the others use often"
    if federation.aside:
        yield f"set aside, as codes that say nothing about a disease: {len(federation.aside):,}"


def _removed_in_words(removed: dict[str, int], fewest: int) -> str:
    counts = ", ".join(f"{count:,} {mode}" for mode, count in removed.items())
    return f"codes that fewer than {fewest} people have were removed: {counts}"


def show(result: dict[str, Any], folder: Path, form: Format) -> None:
    """The comparison on stdout."""
    if form is Format.json:
        print_json(result["summary"])
        return
    console = out()
    console.print(comparison_table(result["comparison"]))
    console.print(f"\nRun folder: {folder}  (report: {folder / 'report.html'})")


def comparison_table(rows: list[dict[str, Any]]) -> Any:
    """Method, RMSE, gap to central, FMS, seconds, MB."""
    from tripheno.report.page import signed_percent

    headings = {"Method": False, "RMSE": True, "Gap to central": True, "FMS": True}
    made = table("", {**headings, "Iterations": True, "Seconds": True, "MB sent": True})
    for row in rows:
        gap = "–" if row["rmse_gap"] is None else signed_percent(row["rmse_gap"], 4)
        match = "–" if row["fms"] is None else f"{row['fms']:.4f}"
        made.add_row(
            row["method"], f"{row['rmse']:.4f}", gap, match, str(row["iterations"]),
            f"{row['seconds']:.2f}", f"{row['megabytes']:.2f}",
        )  # fmt: skip
    return made
