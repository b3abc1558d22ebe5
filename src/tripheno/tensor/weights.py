"""A weight per patient: influence bounds, bootstraps and half splits are all one thing.

The objective becomes Σ_i w_i‖X_i − O_i‖², as if patient i's counts and row were both √w_i times as
long. A patient's row minimises the own term, so no weight changes it; whatever is summed over
patients takes w_i of each: MTTKRPs, the Gram matrix AᵀWA, ‖O‖², errors. Numbers of cells and of
patients stay as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Self

import numpy as np

from tripheno.errors import BadShape, SettingsError


class WeightedPatients:
    """What every storage of counts does with the weights of its patients; None means 1 each."""

    starts: np.ndarray
    weights: np.ndarray | None

    @property
    def patients(self) -> int:
        """Number of patient rows, those without cells included."""
        return len(self.starts) - 1

    @property
    def each_weight(self) -> np.ndarray:
        """One number per patient, whether weights were given or not."""
        return np.ones(self.patients) if self.weights is None else self.weights

    def with_weights(self, weights: np.ndarray | None) -> Self:
        """The same counts, patient i taking part in sums with ``weights[i]``; None for 1 each."""
        if weights is not None:
            weights = np.array(weights, dtype=np.float64)
            if weights.shape != (self.patients,):
                raise BadShape(f"weights of shape {weights.shape} for {self.patients} patient(s)")
            if not (np.isfinite(weights) & (weights >= 0.0)).all():
                raise SettingsError("a weight is negative or not finite", where="weights")
        return replace(self, weights=weights)  # type: ignore[type-var]

    def weighted(self, patient_factor: np.ndarray) -> np.ndarray:
        """W A, in float64."""
        rows = np.ascontiguousarray(patient_factor, dtype=np.float64)
        return rows if self.weights is None else rows * self.weights[:, None]

    def patient_gram(self, patient_factor: np.ndarray) -> np.ndarray:
        """AᵀWA."""
        rows = patient_factor
        if self.weights is not None:  # by halves, so that the product is symmetric to the bit
            rows = rows * np.sqrt(self.weights)[:, None]
        return np.asarray(rows.T @ rows)


def joined_weights(parts: Sequence[WeightedPatients]) -> np.ndarray | None:
    """The weights of several hospitals' patients, one below the other."""
    if all(part.weights is None for part in parts):
        return None
    return np.concatenate([part.each_weight for part in parts])
