"""The three root mean square errors, without ever densifying."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tripheno.errors import BadShape
from tripheno.solver.solution import Rmse
from tripheno.tensor.count_tensor import CountTensor
from tripheno.tensor.factors import gram_of_others


def rmse(tensor: CountTensor, factors: Sequence[np.ndarray]) -> Rmse:
    """RMSE of a model over nonzero cells, per nonzero (‖X − O‖/√nnz) and over all cells.

    ``factors`` has the patient factor first, then one factor per feature mode.
    """
    if tuple(len(factor) for factor in factors) != tensor.shape:
        raise BadShape(
            f"factors of lengths {[len(f) for f in factors]} for a tensor of shape {tensor.shape}"
        )
    patients, *features = (np.ascontiguousarray(factor, dtype=np.float64) for factor in factors)
    at_cells, inner = tensor.cells.at_cells(features, patients)
    model = float((tensor.cells.patient_gram(patients) * gram_of_others(features)).sum())
    squared = max(tensor.squared_norm - 2.0 * inner + model, 0.0)
    return Rmse(
        math.sqrt(at_cells / tensor.nonzeros),
        math.sqrt(squared / tensor.nonzeros),
        math.sqrt(squared / math.prod(tensor.shape)),
    )
