"""Hospitals that differ: patients split by what they have, not at random.

The paper deals patients at random, so its hospitals are all alike and their own models nearly the
same. Real hospitals have a case mix each. Here a patient goes with the phenotype that is strongest
in them, and every phenotype has its own shares of the hospitals: the usual way to make federated
data differ (Hsu, Qi and Brown 2019), with phenotypes in place of labels.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tripheno.errors import TooManyHospitals
from tripheno.tensor.count_tensor import CountTensor
from tripheno.tensor.factors import gram_of_others
from tripheno.tensor.rows import regular

CONCENTRATION = 0.1  # of the Dirichlet distribution; the smaller, the more hospitals differ


def share_out_by_phenotype(
    tensor: CountTensor,
    hospitals: int,
    factors: Sequence[np.ndarray],
    rng: np.random.Generator,
) -> dict[str, CountTensor]:
    """Deal patients so that each phenotype has hospitals of its own; nobody is left without."""
    if hospitals > tensor.patients:
        raise TooManyHospitals(f"{hospitals} hospitals for {tensor.patients} patients")
    strongest = strongest_phenotype(tensor, factors)
    phenotypes = factors[0].shape[1]
    shares = rng.dirichlet(np.full(hospitals, CONCENTRATION), size=phenotypes)
    drawn = rng.random(tensor.patients)[:, None] < np.cumsum(shares, axis=1)[strongest]
    place = np.where(drawn.any(axis=1), drawn.argmax(axis=1), hospitals - 1)
    for k in range(hospitals):
        if not (place == k).any():  # a hospital needs a patient: the largest one spares its first
            largest = int(np.bincount(place, minlength=hospitals).argmax())
            place[np.flatnonzero(place == largest)[0]] = k
    return {
        f"hospital-{k + 1}": tensor.select_patients(np.flatnonzero(place == k))
        for k in range(hospitals)
    }


def strongest_phenotype(tensor: CountTensor, factors: Sequence[np.ndarray]) -> np.ndarray:
    """For every patient the component with the largest membership, memberships not negative."""
    gram, _ = regular(gram_of_others(factors))
    memberships, _ = tensor.cells.update_patients(factors, gram, nonnegative=True)
    return np.asarray(memberships.argmax(axis=1))
