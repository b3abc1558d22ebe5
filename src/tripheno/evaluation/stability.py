"""Does a phenotype come back from other starts and from other patients?"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from tripheno.errors import TriphenoWarning
from tripheno.evaluation.heldout import halves
from tripheno.exchange import MakeSums
from tripheno.solver.fit import fit
from tripheno.solver.settings import SolverSettings
from tripheno.solver.solution import Solution
from tripheno.tensor.count_tensor import CountTensor
from tripheno.tensor.factors import match_components


def matched(reference: Solution, others: Sequence[Solution]) -> np.ndarray:
    """Per component of the reference the mean factor match with its partners in the others."""
    rows = [match_components(reference.factors, other.factors).similarity for other in others]
    return np.asarray(np.mean(rows, axis=0))


def quiet_fit(
    tensors: Mapping[str, CountTensor], settings: SolverSettings, sums: MakeSums | None = None
) -> Solution:
    """A fit whose warnings are not news: many are made to be compared."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TriphenoWarning)
        return fit(tensors, settings, sums=sums)


def over_restarts(
    tensors: Mapping[str, CountTensor], reference: Solution, starts: int = 5
) -> np.ndarray:
    """Stability over random starts on the same patients."""
    settings = replace(reference.settings, restarts=1, track_rmse=False)
    seeds = range(settings.seed + 1000, settings.seed + 1000 + starts)
    return matched(reference, [quiet_fit(tensors, replace(settings, seed=s)) for s in seeds])


def half_models(
    tensors: Mapping[str, CountTensor],
    settings: SolverSettings,
    rng: np.random.Generator,
    repeats: int = 1,
    sums: MakeSums | None = None,
) -> list[Solution]:
    """Models of halves of every hospital's patients, split at home: two for every repeat.

    They are made by `exact`, the cheapest way to the model of all hospitals together.
    """
    federated = replace(settings, method="exact", track_rmse=False)
    parts = [part for _ in range(repeats) for part in halves(tensors, rng)]
    return [quiet_fit(part, federated, sums) for part in parts]


def over_halves(
    tensors: Mapping[str, CountTensor],
    reference: Solution,
    rng: np.random.Generator,
    repeats: int = 2,
) -> np.ndarray:
    """Stability over halves of the patients."""
    return matched(reference, half_models(tensors, reference.settings, rng, repeats))


def over_bootstrap(
    tensors: Mapping[str, CountTensor],
    reference: Solution,
    rng: np.random.Generator,
    repeats: int = 5,
) -> np.ndarray:
    """Stability over patients drawn again with replacement, each hospital from its own."""
    settings = replace(reference.settings, track_rmse=False)
    drawn = [
        {name: tensor.select_patients(_drawn(tensor, rng)) for name, tensor in tensors.items()}
        for _ in range(repeats)
    ]
    return matched(reference, [quiet_fit(one, settings) for one in drawn])


def _drawn(tensor: CountTensor, rng: np.random.Generator) -> np.ndarray:
    return np.sort(rng.integers(tensor.patients, size=tensor.patients))
