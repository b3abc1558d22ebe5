"""One hospital as several shards: `python -m benchmarks.shards [share of 15M cells] [engine]`.

A default fit of one hospital (tournament, fit, measures) in this process on one thread, then with
its patients at 2 and 4 shards of one thread each. Seconds are of the fit; starting the processes
and dealing out the patients are told apart, and the largest difference of factors and objective.
"""

from __future__ import annotations

import sys
import time
import warnings

import numpy as np

from tripheno.errors import TriphenoWarning
from tripheno.lab.benchmark import RULE, BenchmarkPlan, case_events
from tripheno.solver.fit import fit
from tripheno.solver.settings import SolverSettings
from tripheno.solver.solution import Solution
from tripheno.study.sharding import started
from tripheno.tensor.count_tensor import CountTensor
from tripheno.tensor.shards import Shards
from tripheno.tensor.threads import limited_to

SETTINGS = SolverSettings(10, max_iter=20)


def timed(tensor: CountTensor) -> tuple[Solution, float]:
    begun = time.perf_counter()
    found = fit({"hospital": tensor}, SETTINGS)
    return found, time.perf_counter() - begun


def apart(one: Solution, other: Solution) -> float:
    """The largest difference, of factors and of the objective's share."""
    factors = max(
        float(np.abs(a - b).max()) for a, b in zip(one.factors, other.factors, strict=True)
    )
    return max(factors, abs(one.objective / other.objective - 1.0))


def main(scale: float = 0.4, engine: str = "processes") -> None:
    warnings.simplefilter("ignore", TriphenoWarning)
    events = case_events(BenchmarkPlan().cases[0], scale)
    tensor = CountTensor.from_events(events, rule=RULE)
    print(f"{tensor}, rank 10, 16 starts, {SETTINGS.max_iter} iterations at most")
    small = tensor.select_patients(np.arange(200))
    with limited_to(1):
        timed(small)  # compiled code is read from disk
        whole, alone = timed(tensor)
    print(f"one process, one thread: {alone:.2f} s, {whole.iterations} iterations")
    _, threads = timed(tensor)
    print(f"one process, all threads: {threads:.2f} s, {alone / threads:.2f}×")
    for number in (2, 4):
        begun = time.perf_counter()
        with Shards(started(number, engine, threads=1)) as pool:  # type: ignore[arg-type]
            dealt = pool.place(tensor)
            timed(pool.place(small))
            placing = time.perf_counter() - begun
            found, seconds = timed(dealt)
        print(
            f"{number} shards, {engine}: {seconds:.2f} s, {alone / seconds:.2f}×, apart "
            f"{apart(whole, found):.1e}; started and dealt out in {placing:.1f} s"
        )


if __name__ == "__main__":
    main(*map(float, sys.argv[1:2]), *sys.argv[2:3])
