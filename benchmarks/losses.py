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

from benchmarks.evidence import FEWEST, RESAMPLES, SOURCES, patients_of
from tripheno.errors import TriphenoWarning
from tripheno.exchange.communicator import in_clear
from tripheno.solver.fit import fit
from tripheno.solver.settings import LOSSES, SolverSettings
from tripheno.solver.solution import Solution
from tripheno.study.evidence import halves, seeded_generators, weigh
from tripheno.tensor.count_tensor import CountTensor
from tripheno.tensor.factors import match_components

RANK, STARTS = 10, 8


def found(tensors: dict[str, CountTensor], loss: str, seed: int) -> Solution:
    """A default study's fit, with half of its starts."""
    settings = SolverSettings(RANK, loss=loss, seed=seed, starts=STARTS)  # type: ignore[arg-type]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TriphenoWarning)
        return fit(tensors, settings)


def alike(one: Solution, other: Solution) -> np.ndarray:
    """How well each component of one is found in the other."""
    return match_components(one.factors, other.factors).similarity


def line(name: str, tensors: dict[str, CountTensor], loss: str, seeds: int) -> str:
    """What the table says of one data set and loss."""
    whole = [found(tensors, loss, seed) for seed in range(2)]
    pairs = [
        alike(
            *(
                found(part, loss, seed)
                for part in halves(tensors, seeded_generators(seed), "halves")
            )
        )
        for seed in range(seeds)
    ]
    weighed = weigh(
        in_clear(tensors), tensors, whole[0],
        generators=seeded_generators(0), resamples=RESAMPLES, fewest=FEWEST,
    )  # fmt: skip
    grades = Counter(one.grade for one in weighed.grades)
    return (
        f"| {name} | {loss} | {np.mean(pairs):.2f} | {np.mean(np.array(pairs) >= 0.9):.0%} | "
        f"{alike(*whole).mean():.2f} | {grades['stable']} / {grades['partly']} / "
        f"{grades['unstable']} | {np.median(weighed.effective):.0f} |"
    )


def main(words: list[str]) -> None:
    """One line for each data set and loss."""
    root, seeds = Path(words[0]), int(words[1]) if len(words) > 1 else 3
    columns = (
        "data | loss | halves | halves ≥ 0.9 | starts | stable / partly / unstable | effective"
    )
    print(f"| {columns} |\n|---|---|---:|---:|---:|---|---:|", flush=True)
    for name in words[2:] or SOURCES:
        tensors = {"all": patients_of(name, root)}
        for loss in LOSSES:
            print(line(name, tensors, loss, seeds), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
