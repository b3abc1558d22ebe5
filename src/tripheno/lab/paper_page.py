"""One page for all experiments in a folder: our numbers, the seed paper's beside them, figures."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from markupsafe import Markup

from tripheno.files import write_text
from tripheno.lab.paper.communication import seed_communication_seconds
from tripheno.lab.paper.ledger import Row, read_lines, read_rows
from tripheno.lab.paper.seed_figures import (
    SEED_PHENOTYPES,
    SEED_TENSORS,
    SEED_UCSD,
    SEED_WORST_GAP,
)
from tripheno.lab.paper_charts import (
    COLOURS,
    Mean,
    curve_chart,
    error_chart,
    over_repeats,
    time_chart,
    x_label,
)
from tripheno.report.charts import as_svg
from tripheno.report.page import environment

TITLES = {
    "nonzeros": "Number of nonzeros",
    "hospitals": "Number of hospitals",
    "skew": "Share of patients at the first hospital",
    "case-mix": "Number of hospitals that differ in case mix",
    "sums-plain": "Sums in clear: number of hospitals",
    "sums-blind": "Blind sums: number of hospitals",
}
FIGURES = ("nonzeros", "hospitals", "skew", "case-mix")
DIFFERENT = "case-mix"  # the experiment whose hospitals differ
NUMBERS = (
    "rmse_nonzeros", "rmse_gap", "fms", "seconds_compute", "seconds_communication",
    "seconds_alignment", "bytes_up", "bytes_down",
)  # fmt: skip


def write_page(folder: Path) -> Path:
    """``index.html`` and ``figures/*.svg`` from whatever rows the folder holds so far."""
    rows = {name: read_rows(folder / f"{name}.csv") for name in TITLES}
    figures: dict[str, Markup] = {}
    draw = _drawer(folder / "figures", figures)
    for name in FIGURES:
        if rows[name]:
            draw(f"{name}-error", error_chart(rows[name], name, TITLES[name]),
                 f"RMSE of every method against {TITLES[name].lower()}")  # fmt: skip
            draw(f"{name}-time", time_chart(rows[name], name, TITLES[name]),
                 f"Seconds of every method against {TITLES[name].lower()}")  # fmt: skip
    _draw_curves(folder, draw)
    page = (
        environment()
        .get_template("paper.html")
        .render(
            titles=TITLES,
            tables={name: _table(name, found) for name, found in rows.items() if found},
            verdicts=verdicts(rows),
            figures=figures,
            seed_tensors=_beside_the_seed(rows["nonzeros"]),
            seed_ucsd=SEED_UCSD,
            seed_phenotypes=SEED_PHENOTYPES,
            seed_worst=SEED_WORST_GAP,
            seed_rule=seed_communication_seconds((38_035, 3_229, 304), 3, 10, 100),
            phenotypes=_phenotypes(folder),
            made_with=_made_with(folder),
            downstream=_json(folder / "downstream.json"),
        )
    )
    path = folder / "index.html"
    write_text(path, page)
    return path


def _drawer(folder: Path, kept: dict[str, Markup]) -> Callable[[str, Any, str], None]:
    def draw(name: str, chart: Any, label: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.svg").write_text(as_svg(chart, label, standalone=True), "utf-8")
        kept[name] = Markup(as_svg(chart, label))  # noqa: S704  drawn by us, texts escaped as XML

    return draw


def _draw_curves(folder: Path, draw: Callable[[str, Any, str], None]) -> None:
    """The error over iterations of each tensor that was followed, and over bytes sent."""
    lines = read_lines(folder / "iterations.csv")
    for x in sorted({float(line["x"]) for line in lines}):
        label = x_label(x, "nonzeros")
        shown = [
            {
                "method": f"{line['method']} {line['variant']}".strip(),
                "iteration": int(line["iteration"]),
                "rmse": float(line["rmse_nonzeros"]),
                "megabytes": max(float(line["bytes"]) / 2**20, 0.01),
            }
            for line in lines
            if float(line["x"]) == x
        ]
        draw(f"iterations-{label}", curve_chart(shown, "iteration", f"Iteration ({label})"),
             f"RMSE of every method over iterations, {label} nonzeros")  # fmt: skip
        draw(f"bytes-{label}", curve_chart(shown, "megabytes", f"Megabytes sent so far ({label})"),
             f"RMSE of every method against megabytes sent, {label} nonzeros")  # fmt: skip


def _table(experiment: str, rows: list[Row]) -> list[dict[str, Any]]:
    """One line per place on the x axis and method: means over repeats, and their spread."""
    means = {name: over_repeats(rows, name) for name in NUMBERS}
    keys = {(row.x, f"{row.method} {row.variant}".strip()): None for row in rows}
    order = list(COLOURS)
    lines = []
    for x, method in sorted(keys, key=lambda k: (str(type(k[0])), k[0], order.index(k[1]))):
        nothing = Mean(float("nan"), 0.0, 0)
        line = {name: means[name].get((x, method), nothing) for name in NUMBERS}
        lines.append({"x": x_label(x, experiment), "method": method, **line})
    return lines


def verdicts(rows: Mapping[str, list[Row]]) -> dict[str, Any]:
    """The bounds that are claimed, over all rows of the grids; ``None`` where no row speaks of it.

    ``local`` is judged where hospitals differ (``case-mix``); where patients were split at random
    its least gap stands beside, and need not be large: such hospitals are all alike.
    """
    every = [row for found in rows.values() for row in found]

    def worst(method: str, variant: str = "") -> float | None:
        wanted = [r.rmse_gap for r in every if (r.method, r.variant) == (method, variant)]
        return max((abs(gap) for gap in wanted if gap is not None), default=None)

    def local(name: str, differ: bool) -> list[float]:
        # K = 1 is the central model
        found = [
            getattr(row, name)
            for experiment, part in rows.items()
            for row in part
            if (experiment == DIFFERENT) is differ and row.method == "local" and row.x != 1.0
        ]
        return [value for value in found if value is not None]

    match = [r.fms for r in every if r.variant == "corrected" and r.fms is not None]
    return {
        "corrected": worst("trip", "corrected"),
        "corrected_fms": min(match, default=None),
        "exact": worst("exact"),
        "released": worst("trip", "released"),
        "local_least": min(local("rmse_gap", differ=True), default=None),
        "local_fms": max(local("fms", differ=True), default=None),
        "local_least_by_lot": min(local("rmse_gap", differ=False), default=None),
        "rows": len(every),
    }


def _beside_the_seed(rows: list[Row]) -> list[dict[str, Any]]:
    """The paper's four tensors and ours, window by window, in the order of their size."""
    sizes = sorted({row.x for row in rows if isinstance(row.x, float)})
    if len(sizes) != len(SEED_TENSORS):
        return [{"seed": seed, "ours": None} for seed in SEED_TENSORS]
    means = {name: over_repeats(rows, name) for name in NUMBERS}

    def ours(x: float) -> dict[str, Any]:
        methods = {"central": "central", "trip": "trip corrected", "exact": "exact",
                   "local": "local"}  # fmt: skip
        return {
            "nonzeros": x,
            **{
                short: {name: means[name].get((x, method)) for name in NUMBERS}
                for short, method in methods.items()
            },
        }

    return [{"seed": seed, "ours": ours(x)} for seed, x in zip(SEED_TENSORS, sizes, strict=True)]


def _phenotypes(folder: Path) -> dict[str, Any] | None:
    """The table of the first repeat, and in how many repeats the hidden one was found."""
    paths = sorted(folder.glob("phenotypes-*.json"), key=lambda p: int(p.stem.split("-")[1]))
    found = [json.loads(path.read_text("utf-8")) for path in paths]
    if not found:
        return None
    judged = [one["only_together"] for one in found if one["only_together"] is not None]
    rows = read_rows(folder / "phenotypes.csv")
    return {
        **found[0],
        "repeats": len(found),
        "judged": len(judged),
        "hits": sum(judged),
        "models": _model_lines(rows),
    }


def _model_lines(rows: list[Row]) -> list[dict[str, Any]]:
    means = {name: over_repeats(rows, name) for name in NUMBERS}
    keys = {(row.x, f"{row.method} {row.variant}".strip()): None for row in rows}
    return [
        {"method": method, **{name: means[name].get((x, method)) for name in NUMBERS}}
        for x, method in keys
    ]


def _json(path: Path) -> Any:
    return json.loads(path.read_text("utf-8")) if path.is_file() else None


def _made_with(folder: Path) -> list[dict[str, Any]]:
    """Settings, versions and machine of every experiment."""
    notes = (_json(folder / f"{name}.json") for name in (*TITLES, "phenotypes"))
    return [note for note in notes if note and note["runs"]]
