"""Which loss gives phenotypes that come back: `python -m benchmarks.losses DATA [seeds] [names]`.

The same patients, rank, starts and influence for both losses. *Halves*: the mean match of a
component fitted to one half of the patients and to the other. *Starts*: the same of two seeds.
*Grades* are those of a study, from resampled patients and from the finalists of the tournament.
"""

from __future__ import annotations

import sys
import warnings
from collections import Counter
from pathlib import Path

import numpy as np

from benchmarks.evidence import DATA, MIN_CELL, hospitals_of
from tripheno.errors import TriphenoWarning
from tripheno.evaluation.grades import graded, likeness
from tripheno.evaluation.intervals import bootstrap_weights
from tripheno.exchange.communicator import in_clear
from tripheno.solver.fit import fit
from tripheno.solver.influence import effective_parts, effective_patients, with_bound
from tripheno.solver.resamples import resampled
from tripheno.solver.settings import LOSSES, SolverSettings
from tripheno.solver.solution import Solution
from tripheno.tensor.count_tensor import CountTensor
from tripheno.tensor.factors import match_components

RANK, RESAMPLES, STARTS = 10, 10, 8


def found(tensors: dict[str, CountTensor], loss: str, seed: int) -> Solution:
    """A default study's fit, with half of its starts."""
    settings = SolverSettings(RANK, loss=loss, seed=seed, starts=STARTS)  # type: ignore[arg-type]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TriphenoWarning)
        return fit(tensors, settings)


def alike(one: Solution, other: Solution) -> np.ndarray:
    """How well each component of one is found in the other."""
    return match_components(one.factors, other.factors).similarity


def halves(
    tensors: dict[str, CountTensor], seed: int
) -> tuple[dict[str, CountTensor], dict[str, CountTensor]]:
    """Every hospital's patients in two."""
    parts: tuple[dict[str, CountTensor], dict[str, CountTensor]] = ({}, {})
    for k, (name, tensor) in enumerate(tensors.items()):
        order = np.random.default_rng([seed, k]).permutation(tensor.patients)
        for part, rows in zip(parts, np.array_split(order, 2), strict=True):
            part[name] = tensor.select_patients(np.sort(rows))
    return parts


def grades(tensors: dict[str, CountTensor], solution: Solution) -> tuple[Counter[str], float]:
    """What a study would call the phenotypes; and the median of their effective patients."""
    assert solution.bound is not None
    bound = {name: with_bound(tensor, solution.bound) for name, tensor in tensors.items()}
    drawn = {
        name: bootstrap_weights(np.random.default_rng([7, k]), tensor.patients, RESAMPLES)
        for k, (name, tensor) in enumerate(bound.items())
    }
    models = resampled(in_clear(bound), bound, solution, drawn)
    rows = solution.patient_factors
    parts = [effective_parts(rows[name], tensor.cells.weights) for name, tensor in bound.items()]
    effective = effective_patients(np.sum(parts, axis=0))
    judged = graded(
        likeness(solution.factors, models), likeness(solution.factors, solution.finalists),
        effective, MIN_CELL,
    )  # fmt: skip
    return Counter(one.grade for one in judged), float(np.median(effective))


def main(words: list[str]) -> None:
    """One line for each data set and loss."""
    root, seeds = Path(words[0]), int(words[1]) if len(words) > 1 else 3
    print(
        "| data | loss | halves | halves ≥ 0.9 | starts | stable / partly / unstable | effective |"
    )
    print("|---|---|---:|---:|---:|---|---:|")
    for name in words[2:] or DATA:
        tensors = {f"h{k}": tensor for k, tensor in enumerate(hospitals_of(name, root))}
        for loss in LOSSES:
            whole = [found(tensors, loss, seed) for seed in range(2)]
            pairs = [
                alike(*(found(part, loss, seed) for part in halves(tensors, seed)))
                for seed in range(seeds)
            ]
            counted, effective = grades(tensors, whole[0])
            print(
                f"| {name} | {loss} | {np.mean(pairs):.2f} | {np.mean(np.array(pairs) >= 0.9):.0%}"
                f" | {alike(*whole).mean():.2f} | {counted['stable']} / {counted['partly']} / "
                f"{counted['unstable']} | {effective:.0f} |",
                flush=True,
            )


if __name__ == "__main__":
    main(sys.argv[1:])
