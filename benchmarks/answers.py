"""Whole fits against what they should not be slower than: ``python -m benchmarks.answers [SCALE]``.

A fit of 2.6M coordinate cells by `Phenotyper`, by iteration, against scipy's products of the same
cells; and `exact` over three hospitals that add blindly against `central`, with default settings
(tournament, bounded influence), on SCALE of the seed paper's day windows.
"""

from __future__ import annotations

import os
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

COORDINATES = 0.173  # of the seed paper's 15M day windows: 2.6M cells
FEW, MANY = 20, 120  # iterations: the difference is what an iteration costs
RUNS, SMALL = 3, 300
Seconds = tuple[float, float]  # of the clock, and of CPU


def least(work: Callable[[], Any], runs: int = RUNS) -> Seconds:
    """The least of some runs."""
    found = []
    for _ in range(runs):
        wall, cpu = time.perf_counter(), time.process_time()
        work()
        found.append((time.perf_counter() - wall, time.process_time() - cpu))
    return min(wall for wall, _ in found), min(cpu for _, cpu in found)


def against_scipy() -> list[str]:
    """Milliseconds of an iteration of both, and the ratio."""
    from tripheno import Phenotyper
    from tripheno.lab.benchmark import RANK, RULE, BenchmarkPlan, case_events
    from tripheno.lab.benchmark_peers import scipy_fibres
    from tripheno.tensor.count_tensor import CountTensor
    from tripheno.tensor.factors import gram_of_others

    counted = CountTensor.from_events(case_events(BenchmarkPlan().cases[0], COORDINATES), rule=RULE)
    tensor = CountTensor.from_cells(*counted.coordinates(), shape=counted.shape)
    rng = np.random.default_rng(0)
    features = [rng.random((size, RANK)) for size in tensor.shape[1:]]
    Phenotyper(RANK, method="central", constraint="none", max_iter=1).fit([tensor])  # compiles
    theirs = least(scipy_fibres(tensor, features, gram_of_others(features)))

    def fitted(iterations: int, **words: Any) -> Seconds:
        words |= {"method": "central", "constraint": "none", "tol": 0.0, "max_iter": iterations}
        return least(lambda: Phenotyper(RANK, **words).fit([tensor]))

    lines = []
    for name, words in {
        "one start": {"starts": 1, "influence": "none"}, "one start, bounded": {"starts": 1},
    }.items():  # fmt: skip
        pairs = zip(fitted(FEW, **words), fitted(MANY, **words), strict=True)
        wall, cpu = ((many - few) / (MANY - FEW) for few, many in pairs)
        lines.append(
            f"| an iteration of `Phenotyper.fit`, {tensor.nonzeros / 1e6:.1f}M cells, {name} | "
            f"{1e3 * wall:.1f} ms (CPU {1e3 * cpu:.1f}) | scipy {1e3 * theirs[0]:.1f} ms "
            f"(CPU {1e3 * theirs[1]:.1f}) | {theirs[0] / wall:.1f}× (CPU {theirs[1] / cpu:.1f}×) |"
        )
    return lines


def blind_cost(name: str, scale: float) -> str:
    """CPU seconds of `exact` over three hospitals and of `central`, default settings."""
    from tripheno.evaluation.comparison import share_out
    from tripheno.lab.benchmark import RANK, RULE, BenchmarkPlan, case_events
    from tripheno.solver.fit import fit
    from tripheno.solver.settings import Method, SolverSettings
    from tripheno.study.makers import Maker
    from tripheno.tensor.count_tensor import CountTensor

    case = next(case for case in BenchmarkPlan().cases if case.name == name)
    whole = CountTensor.from_events(case_events(case, scale), rule=RULE)
    three = share_out(whole, 3, None, np.random.default_rng(0))
    runs: dict[Method, dict[str, CountTensor]] = {"central": {"all": whole}, "exact": three}
    spent: dict[str, float] = {}
    for method, tensors in runs.items():
        settings = SolverSettings(RANK, method=method)
        few = {name: one.select_patients(np.arange(SMALL)) for name, one in tensors.items()}
        fit(few, settings, Maker()(tuple(few)))  # compiles
        _, spent[method] = least(partial(fit, tensors, settings, Maker()(tuple(tensors))), 1)
    return (
        f"| `exact` K=3, blind, {whole.nonzeros / 1e6:.1f}M cells of {name} | "
        f"{spent['exact']:.1f} CPU s | central {spent['central']:.1f} CPU s | "
        f"{spent['exact'] / spent['central']:.2f}× |"
    )


def report(scale: float = 1.0) -> str:
    """The table."""
    from tripheno.errors import TriphenoWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TriphenoWarning)
        rows = [*against_scipy(), *(blind_cost(name, scale) for name in ("t15", "t50"))]
    return "\n".join(["| whole fits | ours | beside | |", "|---|---|---|---|", *rows])


if __name__ == "__main__":
    print(report(*map(float, sys.argv[1:2])))
