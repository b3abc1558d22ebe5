"""``tripheno rank``: choose the number of phenotypes with evidence."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from tripheno.cli.console import Format, FormatOption, Progress, out, print_json, table
from tripheno.cli.simulate import LossName
from tripheno.errors import SettingsError


def parse_ranks(text: str) -> list[int]:
    """``2:20`` (both ends), ``2:20:3`` (every third) or ``4,6,8``."""
    try:
        if ":" in text:
            first, last, *step = (int(word) for word in text.split(":"))
            ranks = list(range(first, last + 1, *step))
        else:
            ranks = sorted({int(word) for word in text.split(",")})
    except ValueError:
        ranks = []
    if not ranks or ranks[0] < 1:
        raise SettingsError(f"--ranks {text}", fix="as in 2:20, 2:20:3 or 4,6,8")
    return ranks


def rank(
    sites: Annotated[
        list[Path], typer.Argument(help="Site folders, event tables, cells or .tns files.")
    ],
    out_dir: Annotated[Path, typer.Option("--out", help="Folder for table and picture.")],
    ranks: Annotated[str, typer.Option(help="Numbers to try: 2:20, 2:20:3 or 4,6,8.")] = "2:20",
    hospitals: Annotated[
        int | None, typer.Option(help="Deal one site's patients to this many hospitals.", min=1)
    ] = None,
    repeats: Annotated[int, typer.Option(help="Splits of the patients in halves.", min=1)] = 1,
    starts: Annotated[
        int, typer.Option(help="Starts for every fit; 1: one random start.", min=1, max=40)
    ] = 4,
    loss: Annotated[
        LossName, typer.Option(help="What a good fit is; poisson takes counts as counts.")
    ] = "squared",
    seed: Annotated[int, typer.Option(help="Seed of starts and splits.", min=0)] = 0,
    tol: Annotated[float, typer.Option(help="Relative change of the objective to stop at.")] = 1e-4,
    form: FormatOption = Format.text,
) -> None:
    """Try several numbers of phenotypes over the hospitals; recommend one, or none."""
    from tripheno.files import write_text
    from tripheno.protocol.agreed import SetAside
    from tripheno.report.charts import as_svg, rank_chart
    from tripheno.report.sites import read_sites
    from tripheno.solver.settings import SolverSettings
    from tripheno.study.beforehand import check_before
    from tripheno.study.evidence import choose_rank
    from tripheno.study.makers import Maker
    from tripheno.study.simulation import assemble

    wanted = parse_ranks(ranks)
    settings = SolverSettings(method="exact", loss=loss, seed=seed, tol=tol, starts=starts)
    found = read_sites(sites, hospitals, None, seed)
    tensors = found.tensors
    check_before(tensors, max(wanted), dealt_out=True)
    maker = Maker(seed=seed)
    kind = maker.of(tuple(tensors))
    with Progress() as progress:
        for name, why in found.left_out.items():
            progress.say(f"{name} takes no part: {why}")
        choice = choose_rank(
            assemble(tensors, rule=SetAside()).tensors, wanted, settings, maker(tuple(tensors)),
            repeats=repeats,
            announce=lambda e: progress.say(
                f"{e.rank} phenotypes: held-out error {e.held_out_error:.4f}"
            ),
        )  # fmt: skip
    advice = choice.recommendation
    result: dict[str, Any] = {
        "recommendation": {**asdict(advice), "text": advice.text},
        "sums": kind,
        "evidence": [asdict(one) for one in choice.evidence],
    }
    out_dir.mkdir(parents=True, exist_ok=True)
    write_text(out_dir / "rank.json", json.dumps(result, indent=2, ensure_ascii=False) + "\n")
    label = f"Evidence for the number of phenotypes. {advice.text}"
    write_text(out_dir / "rank.svg", as_svg(rank_chart(choice), label, standalone=True))
    if form is Format.json:
        print_json(result)
        return
    _show(result, out_dir)


def _show(result: dict[str, Any], folder: Path) -> None:
    headings = {"Phenotypes": True, "Held-out error": True, "Stability": True}
    found = table("", {**headings, "Core consistency": True, "Fit": True, "": False})
    for one in result["evidence"]:
        found.add_row(
            str(one["rank"]), f"{one['held_out_error']:.4f}", f"{one['stability']:.2f}",
            f"{one['core_consistency']:.0f}", f"{one['fit']:.3f}",
            "← recommended" if one["rank"] == result["recommendation"]["rank"] else "",
        )  # fmt: skip
    console = out()
    console.print(found)
    console.print(f"\n{result['recommendation']['text']}")
    console.print(f"Picture: {folder / 'rank.svg'}")
