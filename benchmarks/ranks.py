"""What non-negativity costs by rank, and how near the products come to the machine's best.

``python -m benchmarks.ranks [SCALE] [RANK ...]``: CPU ms of one iteration on the seed paper's day
windows (SCALE of its patients, 0.062 unless told: 0.93M cells). Non-negative iterations begin at a
real start; *later* is the fifth and after. ``--peak`` measures shares of the multiply-add peak.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from benchmarks.commands import SCALE
from tripheno.lab.benchmark import RULE, BenchmarkPlan, _peaks, case_events
from tripheno.tensor.block_building import in_blocks
from tripheno.tensor.cells import Cells
from tripheno.tensor.count_tensor import CountTensor
from tripheno.tensor.factors import gram_of_others, unit_columns
from tripheno.tensor.rows import regular, solve_rows

RANKS = (10, 20, 50, 200)
BEFORE = 4  # iterations until a later one
RUNS = 10
LONG_ENOUGH = 600.0  # CPU ms of runs to take the mean of
Spent = dict[str, float]
Factors = list[np.ndarray]


def iteration(
    cells: Any, features: Factors, guess: np.ndarray | None, *, nonnegative: bool
) -> tuple[Factors, np.ndarray, Spent]:
    """All updates of one iteration as a fit makes them, and the CPU ms of each part."""
    features = list(features)
    began = time.process_time()
    gram, _ = regular(gram_of_others(features))
    patients, product = cells.update_patients(features, gram, nonnegative=nonnegative, guess=guess)
    spent = {"patients": time.process_time() - began, "second product": 0.0, "features": 0.0}
    for mode in range(len(features)):
        began = time.process_time()
        if mode > 0:
            product = cells.feature_product(features, patients, mode)
        spent["second product"] += time.process_time() - began
        began = time.process_time()
        gram, _ = regular(cells.patient_gram(patients) * gram_of_others(features, mode))
        solved = solve_rows(product, gram, nonnegative=nonnegative)
        features[mode], lengths = unit_columns(solved)
        patients = patients * lengths
        spent["features"] += time.process_time() - began
    return features, patients, {part: 1e3 * seconds for part, seconds in spent.items()}


def mean(cells: Any, features: Factors, guess: np.ndarray | None, *, nonnegative: bool) -> Spent:
    """The mean of many runs of the same iteration, part by part: a CPU clock may tick slowly."""
    iteration(cells, features, guess, nonnegative=nonnegative)  # compiles, and lays out the data
    runs: list[Spent] = []
    while len(runs) < 4 or sum(sum(run.values()) for run in runs) < LONG_ENOUGH:
        runs.append(iteration(cells, features, guess, nonnegative=nonnegative)[2])
    return {part: sum(run[part] for run in runs) / len(runs) for part in runs[0]}


def rows_of(cells: Any, rank: int) -> dict[str, Spent]:
    """Without a constraint, and with it: the first iteration and a later one."""
    rng = np.random.default_rng(rank)
    start = [unit_columns(rng.random((size, rank)))[0] for size in cells.sizes]
    found = {"none": mean(cells, start, None, nonnegative=False)}
    found["nonnegative, first"] = mean(cells, start, None, nonnegative=True)
    features, patients = start, None
    for _ in range(BEFORE):
        features, patients, _ = iteration(cells, features, patients, nonnegative=True)
    found["nonnegative, later"] = mean(cells, features, patients, nonnegative=True)
    return found


def report(scale: float = SCALE, ranks: Sequence[int] = RANKS) -> str:
    """The table by rank."""
    case = next(case for case in BenchmarkPlan().cases if case.name == "t15")
    tensor = CountTensor.from_events(case_events(case, scale), rule=RULE)
    parts = ("patients", "second product", "features")
    lines = [
        f"| {tensor.nonzeros:,} cells, CPU ms | {' | '.join(parts)} | whole | × none |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for rank in ranks:
        found = rows_of(tensor.cells, rank)
        none = sum(found["none"].values())
        for name, spent in found.items():
            each = " | ".join(f"{spent[part]:.1f}" for part in parts)
            whole = sum(spent.values())
            lines.append(f"| R = {rank}, {name} | {each} | {whole:.1f} | {whole / none:.2f} |")
    return "\n".join(lines)


def shares_of_peak(names: Sequence[str] = ("t15", "t50")) -> str:
    """Useful multiply-adds of the products of one iteration, as a share of the peak."""
    lines = ["| explicit counts | bytes a cell | R = 10 | R = 20 |", "|---|---:|---:|---:|"]
    for case in (case for case in BenchmarkPlan().cases if case.name in names):
        stored = CountTensor.from_events(case_events(case, 1.0), rule=RULE).cells
        blocks = in_blocks(Cells(stored.starts, stored.indices, stored.values, stored.sizes))
        shares = []
        for rank in (10, 20):
            rng = np.random.default_rng(rank)
            features = [rng.random((size, rank)) for size in blocks.sizes]
            gram = gram_of_others(features)
            blocks.update_patients(features, gram, nonnegative=False)  # compiles
            began = time.process_time()
            for _ in range(RUNS):
                patients, _ = blocks.update_patients(features, gram, nonnegative=False)
                blocks.feature_product(features, patients, 1)
            seconds = (time.process_time() - began) / RUNS
            peak = _peaks(3)["gflops_of_a_core"]  # seconds are CPU's
            shares.append(4e-9 * rank * blocks.nonzeros / seconds / peak)
        each = " | ".join(f"{100 * share:.0f} %" for share in shares)
        lines.append(f"| {case.name} | {blocks.nbytes / blocks.nonzeros:.2f} | {each} |")
    return "\n".join(lines)


def main(words: list[str]) -> None:
    if "--peak" in words:
        print(shares_of_peak([word for word in words if word[0] == "t"] or ("t15", "t50")))
        return
    scale, *ranks = words or [str(SCALE)]
    print(report(float(scale), [int(rank) for rank in ranks] or RANKS))


if __name__ == "__main__":
    main(sys.argv[1:])
