"""Where a whole fit spends its time: ``python -m benchmarks.profile [CASE ...]``.

Loops over the data run inside `in_chunks`; all the rest is Python, linear algebra of small
matrices, masks and messages. Prints a Markdown table of wall seconds by share.
"""

from __future__ import annotations

import cProfile
import os
import pstats
import sys
import warnings
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

KERNELS = ("threads.py", "in_chunks")
RUNS = (("central", 1), ("exact", 3), ("trip", 3))
ITERATIONS = 100


def main(words: list[str]) -> None:
    from tripheno.errors import TriphenoWarning
    from tripheno.lab.benchmark import RANK, RULE, BenchmarkPlan, case_events
    from tripheno.lab.benchmark_fits import Run, fits
    from tripheno.tensor.count_tensor import CountTensor
    from tripheno.tensor.warm_up import warm_up

    warnings.simplefilter("ignore", TriphenoWarning)
    warm_up(RANK)
    cases = {case.name: case for case in BenchmarkPlan().cases}
    print(f"| {ITERATIONS} iterations | hospitals | s | loops over the data | the next largest |")
    print("|---|---:|---:|---:|---|")
    for name in words or ["t15", "v50"]:
        tensor = CountTensor.from_events(case_events(cases[name], 1.0), rule=RULE)
        for method, hospitals in RUNS:
            profile = cProfile.Profile()
            profile.runcall(
                fits, tensor, (Run(method, hospitals),), RANK, ITERATIONS, lambda _: None
            )
            print(f"| {name} {method} | {hospitals} | {_row(pstats.Stats(profile))} |", flush=True)


def _row(stats: pstats.Stats) -> str:
    """Seconds, the kernels' share, and the three functions outside with the largest own time."""
    total, kernels, others = stats.total_tt, 0.0, []
    for (path, _, function), (_, _, own, cumulative, _) in stats.stats.items():
        if (Path(path).name, function) == KERNELS:
            kernels = cumulative
        elif "acquire" not in function:  # waiting for the kernels
            others.append((own / total, f"{Path(path).stem}.{function}".strip("~.")))
    largest = ", ".join(f"{100 * share:.0f} % `{who}`" for share, who in sorted(others)[:-4:-1])
    return f"{total:.1f} | {100 * kernels / total:.0f} % | {largest}"


if __name__ == "__main__":
    main(sys.argv[1:])
