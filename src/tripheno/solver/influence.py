"""How much one patient may count: slices longer than a bound are scaled down to it.

A patient who stayed for months has thousands of cells and would be a phenotype alone. The bound is
the typical length ‖O_i‖ over all hospitals, their geometric mean: it comes of one number summed
over all patients. (The median would come of counts by length, where one long stay is a count of
one.) w_i = min(1, bound/‖O_i‖)² is a weight of the tensor (`with_weights`), for row solves do not
care about a patient's scale.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tripheno.exchange.communicator import Communicator
from tripheno.solver.messages import Lengths
from tripheno.tensor.count_tensor import CountTensor
from tripheno.tensor.shards import at_shards

STEPS = 4  # of the bound in a factor of two: round-off does not move it


@at_shards("patients")
def slice_norms(tensor: CountTensor) -> np.ndarray:
    """‖O_i‖ of every patient."""
    found = np.empty(tensor.patients)
    for at, piece in tensor.pieces():
        squares = piece.cells.values.astype(np.float64) ** 2
        found[at] = np.bincount(piece.patient_of_cell, weights=squares, minlength=piece.patients)
    return np.sqrt(found)


def log_lengths(tensor: CountTensor) -> Lengths:
    """What a hospital contributes: Σ log₂‖O_i‖, and over how many patients."""
    norms = slice_norms(tensor)
    norms = norms[norms > 0.0]
    return Lengths(float(np.log2(norms).sum()), float(len(norms)))


def common_bound(federation: Communicator, label: str, tensors: Mapping[str, CountTensor]) -> float:
    """The typical length of all hospitals' patients: one sum."""
    total = federation.sum(f"{label}lengths", lambda name: log_lengths(tensors[name])).value
    return typical_norm(total)


def with_bound(tensor: CountTensor, bound: float) -> CountTensor:
    """The tensor with every patient's influence bounded."""
    return tensor.with_weights(tensor.cells.each_weight * influence_weights(tensor, bound))


def typical_norm(total: Lengths) -> float:
    """The bound: the geometric mean, to the nearest quarter of a factor of two."""
    if total.patients < 1.0:
        return 1.0
    return float(2.0 ** (np.rint(STEPS * total.log_length / total.patients) / STEPS))


def influence_weights(tensor: CountTensor, bound: float) -> np.ndarray:
    """w_i = min(1, bound/‖O_i‖)²."""
    norms = slice_norms(tensor)
    return np.asarray(np.minimum(1.0, bound / np.maximum(norms, 1e-300)) ** 2)


def effective_parts(patient_factor: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
    """What a hospital contributes to the effective number: Σ_i x_ir and Σ_i x_ir², 2 × R.

    x_ir = w_i a_ir² is patient i's share of phenotype r in the fit.
    """
    shares = patient_factor**2
    if weights is not None:
        shares = shares * weights[:, None]
    return np.stack([shares.sum(axis=0), (shares**2).sum(axis=0)])


def effective_patients(total: np.ndarray) -> np.ndarray:
    """(Σx)²/Σx² per phenotype: how many patients it would be if all counted alike."""
    return np.asarray(total[0] ** 2 / np.maximum(total[1], 1e-300))
