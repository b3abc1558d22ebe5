"""How much one patient may count: slices longer than a bound are scaled down to it.

A patient who stayed for months has thousands of cells and would be a phenotype alone. The bound is
the median length ‖O_i‖ over all hospitals, found from a sum of bins; w_i = min(1, bound/‖O_i‖)² is
a weight of the tensor (`with_weights`), for row solves do not care about a patient's scale.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tripheno.exchange.communicator import Communicator
from tripheno.solver.messages import LENGTH_BINS as BINS
from tripheno.solver.messages import Lengths
from tripheno.tensor.count_tensor import CountTensor

BIN_RATIO = 2.0**0.25  # lengths of one bin differ by less than 19 %; the last bin has all above


def slice_norms(tensor: CountTensor) -> np.ndarray:
    """‖O_i‖ of every patient."""
    squares = tensor.cells.values.astype(np.float64) ** 2
    return np.asarray(
        np.sqrt(np.bincount(tensor.patient_of_cell, weights=squares, minlength=tensor.patients))
    )


def norm_bins(tensor: CountTensor) -> np.ndarray:
    """What a hospital contributes: how many of its patients have a length in each bin."""
    norms = slice_norms(tensor)
    place = np.floor(np.log(norms[norms > 0.0]) / np.log(BIN_RATIO) + 1e-9)
    bins = np.clip(place, 0, BINS - 1).astype(np.int64)
    return np.bincount(bins, minlength=BINS).astype(np.float64)


def common_bound(federation: Communicator, label: str, tensors: Mapping[str, CountTensor]) -> float:
    """The median length of all hospitals' patients: one sum."""
    total = federation.sum(f"{label}lengths", lambda name: Lengths(norm_bins(tensors[name]))).value
    return median_norm(np.rint(total.bins))


def with_bound(tensor: CountTensor, bound: float) -> CountTensor:
    """The tensor with every patient's influence bounded."""
    return tensor.with_weights(tensor.cells.each_weight * influence_weights(tensor, bound))


def median_norm(total: np.ndarray) -> float:
    """The bound, from the summed bins: the lower edge of the median's bin."""
    if not total.any():
        return 1.0
    return float(BIN_RATIO ** np.searchsorted(np.cumsum(total), total.sum() / 2.0))


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
