"""The figures of a benchmark as a page of Markdown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def markdown(found: dict[str, Any]) -> str:
    """Tables with the machine and the date, ratios first."""
    peaks = found["peaks"]
    lines = [
        "# Speed, measured in one run",
        "",
        f"{found['date']} · {found['machine']} · load before {found['load_before']:.1f} · "
        f"{peaks['gflops']:.0f} GF/s multiply-add and {peaks['gbytes']:.0f} GB/s triad · "
        f"rank {found['rank']} · kernels ready after {found['warm_up_seconds']:.1f} s · "
        f"peak memory {found['peak_memory_mb']:,.0f} MB",
        "",
        "Milliseconds of one iteration (all modes), the least of several taken in turn. Ratios are "
        "to *blocks* on the same cells; TensorLy, which needs the dense array, has 30 patients.",
    ]
    for tensor in found["tensors"]:
        lines += ["", *_tensor(tensor)]
    return "\n".join(lines) + "\n"


def write(found: dict[str, Any], folder: Path | None) -> str:
    """The page; with a folder, ``benchmarks.json`` and ``benchmarks.md`` in it too."""
    page = markdown(found)
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "benchmarks.json").write_text(json.dumps(found, indent=2) + "\n", "utf-8")
        (folder / "benchmarks.md").write_text(page, "utf-8")
    return page


def _tensor(tensor: dict[str, Any]) -> list[str]:
    seconds = tensor["seconds"]
    blocks = seconds["blocks"]["wall"]
    shape = " × ".join(f"{size:,}" for size in tensor["shape"])
    lines = [
        f"## {tensor['windows']}: {tensor['nonzeros'] / 1e6:.1f}M cells ({shape}), "
        f"{tensor['events'] / 1e6:.2f}M events",
        "",
        "| | ms | CPU ms | × blocks | bytes a cell |",
        "|---|---:|---:|---:|---:|",
    ]
    for name, took in seconds.items():
        small = seconds.get("blocks, 30 patients", {"wall": blocks})["wall"]
        reference = small if name == "TensorLy" else blocks
        memory = tensor["bytes_per_nonzero"].get(name)
        lines.append(
            f"| {name} | {1e3 * took['wall']:.1f} | {1e3 * took['cpu']:.1f} "
            f"| {took['wall'] / reference:.2f} | {'' if memory is None else f'{memory:.2f}'} |"
        )
    ranks = ", ".join(f"{rank}: {1e3 * wall:.1f} ms" for rank, wall in tensor["ranks"].items())
    building = ", ".join(
        f"{name} {took['wall']:.2f} s (CPU {took['cpu']:.2f} s)"
        for name, took in tensor["building"].items()
    )
    lines += [
        "",
        f"Useful multiply-adds: {100 * tensor['share_of_peak']:.0f} % of the peak. "
        f"By rank: {ranks}. Building from events: {building}.",
        "",
        "| whole fit | hospitals | RMSE each iteration | iterations | s | CPU s |",
        "|---|---:|---|---:|---:|---:|",
    ]
    for run in tensor["fits"]:
        lines.append(
            f"| {run['method']} | {run['hospitals']} "
            f"| {'yes' if run['rmse_each_iteration'] else 'no'} | {run['iterations']} "
            f"| {run['wall']:.2f} | {run['cpu']:.2f} |"
        )
    return lines
