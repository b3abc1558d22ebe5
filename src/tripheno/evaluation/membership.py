"""Who has a phenotype: it fits the patient better than chance would make it fit.

Chance is the same patient with every code relabelled: as many codes, counts and combinations as
before, but codes drawn anew by how many patients of all hospitals have them. A patient has a
phenotype when no more than 1 % of such relabelled twins match it as well, and it takes a noticeable
share of the patient's counts. The twins are drawn at home and compared with their own patient, so
the rule fits sparse and dense data alike; only counts of people leave.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tripheno.solver.diagnosis import expected_counts
from tripheno.tensor.count_tensor import CountTensor
from tripheno.tensor.factors import gram_of_others
from tripheno.tensor.rows import regular, solve_rows

ALPHA = 0.01
TWINS = 99  # relabelled twins of every patient
LEAST_SHARE = 0.05  # of what the model expects of the patient
_ROOM = 200_000  # cells of twins compared at a time


def chance(
    tensor: CountTensor,
    features: Sequence[np.ndarray],
    people: Sequence[np.ndarray],
    rng: np.random.Generator,
    twins: int = TWINS,
) -> np.ndarray:
    """Patients × components: the share of twins that match as well, the patient counted in.

    ``people`` is per mode how many patients of all hospitals have each code.
    """
    cells, starts = tensor.cells, tensor.cells.starts
    indices, values = cells.indices, cells.values.astype(np.float64)
    with np.errstate(divide="ignore"):
        logs = [np.log(counts) for counts in people]
    score = cells.patient_product(features)
    better = np.zeros_like(score)
    for i in range(tensor.patients):
        mine = slice(starts[i], starts[i + 1])
        codes = [np.unique(column, return_inverse=True) for column in indices[mine].T]
        step = max(1, _ROOM // max(len(values[mine]), 1))
        for first in range(0, twins, step):
            count = min(step, twins - first)
            product = values[mine][None, :, None]
            for (own, place), log, factor in zip(codes, logs, features, strict=True):
                product = product * factor[_drawn(log, len(own), count, rng)[:, place]]
            better[i] += (product.sum(axis=1) >= score[i] * (1.0 - 1e-12)).sum(axis=0)
    return (better + 1.0) / (twins + 1.0)


def _drawn(log: np.ndarray, size: int, count: int, rng: np.random.Generator) -> np.ndarray:
    """``count`` samples of ``size`` codes, none twice, by weight: largest Gumbel keys."""
    keys = log + rng.gumbel(size=(count, len(log)))
    return rng.permuted(np.argpartition(-keys, size - 1, axis=1)[:, :size], axis=1)


def members(
    tensor: CountTensor,
    features: Sequence[np.ndarray],
    people: Sequence[np.ndarray],
    rng: np.random.Generator,
    alpha: float = ALPHA,
) -> np.ndarray:
    """Patients × components: who has which. Patients without a cell have none."""
    gram, _ = regular(gram_of_others(features))
    rows = solve_rows(tensor.cells.patient_product(features), gram, nonnegative=True)
    expected = expected_counts(rows, features)
    noticeable = expected > LEAST_SHARE * expected.sum(axis=1, keepdims=True)
    return np.asarray(noticeable & (chance(tensor, features, people, rng) <= alpha))


def membership_counts(having: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
    """What a hospital contributes: carriers of each component, patients, patients with none."""
    weights = np.ones(len(having)) if weights is None else weights
    none = float(weights @ ~having.any(axis=1))
    return np.append(weights @ having, [float(weights.sum()), none])
