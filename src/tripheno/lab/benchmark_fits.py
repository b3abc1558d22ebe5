"""Whole fits: every method for the same number of iterations, with the sums it is used with."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tripheno.errors import TriphenoWarning
from tripheno.evaluation.comparison import share_out
from tripheno.solver.fit import fit
from tripheno.solver.settings import Method, Precision, SolverSettings
from tripheno.study.makers import Maker
from tripheno.tensor.count_tensor import CountTensor


@dataclass(frozen=True)
class TimedFit:
    """One fit that is timed."""

    method: Method
    hospitals: int = 1
    precision: Precision = "double"
    track_rmse: bool = False


def fits(
    tensor: CountTensor,
    runs: Sequence[TimedFit],
    rank: int,
    iterations: int,
    say: Callable[[str], None],
) -> list[dict[str, Any]]:
    """Seconds of each run; sums are blind from three hospitals on."""
    lines = []
    for run in runs:
        say(f"{run.method} over {run.hospitals} hospital(s), {iterations} iterations")
        tensors = {"all": tensor}
        if run.hospitals > 1:
            tensors = share_out(tensor, run.hospitals, None, np.random.default_rng(0))
        settings = SolverSettings(
            rank,
            method=run.method,
            max_iter=iterations,
            tol=0.0,
            precision=run.precision,
            track_rmse=run.track_rmse,
            starts=1,
            influence="none",
        )
        sums = Maker()
        wall, cpu = time.perf_counter(), time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TriphenoWarning)
            solution = fit(tensors, settings, sums(tuple(tensors)))
        lines.append(
            {
                "method": run.method,
                "hospitals": run.hospitals,
                "sums": sums.of(tuple(tensors)),
                "precision": run.precision,
                "rmse_each_iteration": run.track_rmse,
                "iterations": solution.iterations,
                "rmse": solution.rmse.nonzeros,
                "wall": time.perf_counter() - wall,
                "cpu": time.process_time() - cpu,
            }
        )
    return lines
