"""The figures of a benchmark as a page of Markdown and a picture."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import altair as alt


def markdown(found: dict[str, Any]) -> str:
    """Tables with the machine and the date, ratios first."""
    peaks = found["peaks"]
    small = "" if found["scale"] == 1.0 else f" · {100 * found['scale']:.0f} % of the patients"
    lines = [
        "# Speed, measured in one run",
        "",
        f"{found['date']} · {found['machine']} · load before {found['load_before']:.1f} · "
        f"{peaks['gflops']:.0f} GF/s multiply-add and {peaks['gbytes']:.0f} GB/s triad · "
        f"rank {found['rank']} · kernels ready after {found['warm_up_seconds']:.1f} s · "
        f"peak memory {found['peak_memory_mb']:,.0f} MB{small}",
    ]
    if found["gates"]:
        lines += ["", *_gates(found["gates"], judged=found["scale"] == 1.0)]
    lines += [
        "",
        "Milliseconds of one iteration (all modes), the least of several taken in turn. *Blocks* "
        "are explicit counts, *events* the form the data chooses: a patient's windows where they "
        "cost less than the cells they make. Ratios are to *blocks* on the same cells; TensorLy, "
        "which needs the dense array, has 30 patients.",
    ]
    for name, tensor in found["tensors"].items():
        lines += ["", *_tensor(name, tensor)]
    return "\n".join(lines) + "\n"


def write(found: dict[str, Any], folder: Path | None, front: str = "") -> str:
    """The page; with a folder, ``benchmarks.json``, ``.md`` and ``.svg`` in it too.

    What is put in front of it stands first.
    """
    page = front + markdown(found)
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "benchmarks.json").write_text(json.dumps(found, indent=2) + "\n", "utf-8")
        (folder / "benchmarks.md").write_text(
            page + "\n![Milliseconds of one iteration, by tool and tensor](benchmarks.svg)\n",
            "utf-8",
        )
        iteration_chart(found).save(str(folder / "benchmarks.svg"))
    return page


def iteration_chart(found: dict[str, Any]) -> alt.Chart:
    """Milliseconds of one iteration: our forms beside other tools, on every tensor."""
    shown = ("events", "events, cap 3", "blocks", "blocks, float32", "scipy fibre-CSR", "pyttb")
    rows = [
        {
            "tensor": f"{tensor['windows']}, {tensor['nonzeros'] / 1e6:.0f}M",
            "by": who,
            "milliseconds": 1e3 * tensor["seconds"][who]["wall"],
        }
        for tensor in found["tensors"].values()
        for who in shown
        if who in tensor["seconds"]
    ]
    chart: alt.Chart = (
        alt.Chart(alt.Data(values=rows))  # type: ignore[no-untyped-call]
        .mark_point(filled=True, size=90, opacity=1)  # a bar has no beginning on such a scale
        .encode(
            x=alt.X("milliseconds:Q", scale=alt.Scale(type="log", domainMin=1), title="ms"),
            y=alt.Y("by:N", sort=list(shown), title=None),
            color=alt.Color("by:N", sort=list(shown), legend=None),
            row=alt.Row(
                "tensor:N",
                title=None,
                sort=None,
                header=alt.Header(labelAngle=0, labelAlign="left"),
            ),
        )
        .properties(width=420, title="One iteration, all modes (further left is faster)")
        .resolve_scale(y="independent")
    )
    return chart


def _gates(gates: list[dict[str, Any]], *, judged: bool) -> list[str]:
    """Demands are made at full size; a smaller run shows its figures beside them, no verdict."""
    lines = ["| demand | gate | goal | measured | |", "|---|---:|---:|---:|---|"]
    for one in gates:
        sign = "≤" if one["at_most"] else "≥"
        verdict = "goal met" if one["goal_met"] else "holds" if one["holds"] else "**missed**"
        verdict = verdict if judged else "at a smaller size"
        lines.append(
            f"| {one['what']} | {sign} {one['gate']:g} | {sign} {one['goal']:g} "
            f"| {one['measured']:.3g} | {verdict} |"
        )
    return lines


def _tensor(name: str, tensor: dict[str, Any]) -> list[str]:
    seconds = tensor["seconds"]
    blocks = seconds["blocks"]["wall"]
    shape = " × ".join(f"{size:,}" for size in tensor["shape"])
    lines = [
        f"## {name}, {tensor['windows']}: {tensor['nonzeros'] / 1e6:.1f}M cells ({shape}), "
        f"{tensor['events'] / 1e6:.2f}M events",
        "",
        "| | ms | CPU ms | × blocks | bytes a cell |",
        "|---|---:|---:|---:|---:|",
    ]
    for who, took in seconds.items():
        small = seconds.get("blocks, 30 patients", {"wall": blocks})["wall"]
        reference = small if who == "TensorLy" else blocks
        memory = tensor["bytes_per_nonzero"].get(who)
        lines.append(
            f"| {who} | {1e3 * took['wall']:.1f} | {1e3 * took['cpu']:.1f} "
            f"| {took['wall'] / reference:.2f} | {'' if memory is None else f'{memory:.2f}'} |"
        )
    lines += ["", f"Useful multiply-adds: {100 * tensor['share_of_peak']:.0f} % of the peak."]
    if tensor["ranks"]:
        by_rank = (f"{rank}: {1e3 * wall:.1f} ms" for rank, wall in tensor["ranks"].items())
        lines.append(f"By rank: {'; '.join(by_rank)}.")
    if tensor["building"]:
        both = (
            f"{who} {took['wall']:.2f} s (CPU {took['cpu']:.2f} s, {took['megabytes']:,.0f} MB)"
            for who, took in tensor["building"].items()
        )
        lines.append(f"Building from events: {', '.join(both)}.")
    return lines + (["", *_fits(tensor["fits"])] if tensor["fits"] else [])


def _fits(fits: list[dict[str, Any]]) -> list[str]:
    lines = [
        "| whole fit | hospitals | sums | precision | RMSE each iteration | iterations | s | CPU s "
        "| RMSE over nonzeros |",
        "|---|---:|---|---|---|---:|---:|---:|---:|",
    ]
    for run in fits:
        lines.append(
            f"| {run['method']} | {run['hospitals']} | {run['sums']} | {run['precision']} "
            f"| {'yes' if run['rmse_each_iteration'] else 'no'} | {run['iterations']} "
            f"| {run['wall']:.2f} | {run['cpu']:.2f} | {run['rmse']:.7f} |"
        )
    return lines
