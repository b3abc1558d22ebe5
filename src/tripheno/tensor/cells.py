"""Counts as cells in patient order, and the products the solvers need of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tripheno.errors import BadCells
from tripheno.tensor import kernels
from tripheno.tensor.rows import solve_rows
from tripheno.tensor.threads import in_chunks, patient_chunks, sum_over_chunks
from tripheno.tensor.weights import WeightedPatients

LARGEST_COUNT = 2**32 - 1
LARGEST_SIZE = 2**31 - 1  # positions are stored as 32-bit numbers


@dataclass(frozen=True)
class Cells(WeightedPatients):
    """A patient's cells stand between ``starts[i]`` and ``starts[i+1]``; features as indices.

    This is the seam for other storages: whatever answers the same five questions (``nonzeros``,
    ``squared_norm``, ``update_patients``, ``feature_product``, ``at_cells``) can stand here.
    """

    starts: np.ndarray
    indices: np.ndarray
    values: np.ndarray
    sizes: tuple[int, ...]
    weights: np.ndarray | None = None

    def __post_init__(self) -> None:
        largest = int(self.values.max(initial=0))
        if largest > LARGEST_COUNT:
            raise BadCells(f"a count is larger than {LARGEST_COUNT:,}", fix="set a cap")
        kind = np.uint8 if largest < 256 else np.uint32
        object.__setattr__(self, "values", np.ascontiguousarray(self.values, dtype=kind))
        object.__setattr__(self, "indices", np.ascontiguousarray(self.indices, dtype=np.int32))
        object.__setattr__(self, "starts", np.ascontiguousarray(self.starts, dtype=np.int64))

    @property
    def nonzeros(self) -> int:
        """Number of stored cells."""
        return len(self.values)

    @cached_property
    def squared_norm(self) -> float:
        """‖O‖² = Σ w_i · count²."""
        squares = np.square(self.values, dtype=np.float64)
        if self.weights is not None:
            squares *= np.repeat(self.weights, np.diff(self.starts))
        return float(np.sum(squares))

    @cached_property
    def _chunks(self) -> list[tuple[int, int]]:
        return patient_chunks(self.starts, max(self.sizes))

    @cached_property
    def _offsets(self) -> np.ndarray:
        return np.concatenate([[0], np.cumsum(self.sizes)[:-1]]).astype(np.int64)

    def patient_product(self, features: Sequence[np.ndarray]) -> np.ndarray:
        """MTTKRP of the patient mode, O₍₁₎Π."""
        stacked = np.vstack(features)
        out = np.empty((self.patients, stacked.shape[1]))
        in_chunks(
            self._chunks,
            lambda first, last: kernels.mttkrp_patients(
                self.starts, self.indices, self.values, stacked, self._offsets, first, last, out
            ),
        )
        return out

    def update_patients(
        self,
        features: Sequence[np.ndarray],
        gram: np.ndarray,
        *,
        nonnegative: bool,
        guess: np.ndarray | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """The patient factor that fits best, and with it the MTTKRP of the first feature mode.

        Both come from one question, so that a storage may answer them in one pass over the data.
        """
        product = self.patient_product(features)
        patient_factor = solve_rows(product, gram, nonnegative=nonnegative, guess=guess)
        return patient_factor, self.feature_product(features, patient_factor, 0)

    def feature_product(
        self, features: Sequence[np.ndarray], patient_factor: np.ndarray, mode: int
    ) -> np.ndarray:
        """MTTKRP of a feature mode, O₍ₙ₎Π; mode 0 is the first feature mode."""
        stacked, weighted = np.vstack(features), self.weighted(patient_factor)

        shape = (self.sizes[mode], stacked.shape[1])

        def work(first: int, last: int, part: np.ndarray) -> None:
            kernels.mttkrp_feature(
                self.starts, self.indices, self.values, stacked, self._offsets,
                weighted, mode, first, last, part.reshape(shape),
            )  # fmt: skip

        return sum_over_chunks(self._chunks, shape[0] * shape[1], work).reshape(shape)

    def at_cells(
        self, features: Sequence[np.ndarray], patient_factor: np.ndarray
    ) -> tuple[float, float]:
        """Σ w_i (model − count)² and Σ w_i · model · count over the stored cells."""
        stacked, weights = np.vstack(features), self.each_weight

        def work(first: int, last: int, part: np.ndarray) -> None:
            kernels.model_at_cells(
                self.starts, self.indices, self.values, stacked, self._offsets,
                patient_factor, weights, first, last, part,
            )  # fmt: skip

        squared, inner = sum_over_chunks(self._chunks, 2, work)
        return float(squared), float(inner)


def sorted_cells(
    patient: np.ndarray,
    indices: np.ndarray,
    values: np.ndarray,
    shape: tuple[int, ...],
    cap: int | None = None,
) -> Cells:
    """Cells from coordinates in any order; equal ones are added, then capped; zeros are dropped."""
    order, new = _order(patient, indices, shape)
    patient, indices, values = patient[order], indices[order], values[order]
    begins = np.flatnonzero(new)
    if len(begins) < len(order):
        values = np.add.reduceat(values, begins)
        patient, indices = patient[begins], indices[begins]
    if cap is not None:
        values = np.minimum(values, cap)
    filled = values > 0
    if not filled.all():
        patient, indices, values = patient[filled], indices[filled], values[filled]
    starts = np.searchsorted(patient, np.arange(shape[0] + 1))
    return Cells(starts, indices, values, shape[1:])


def _order(
    patient: np.ndarray, indices: np.ndarray, shape: tuple[int, ...]
) -> tuple[np.ndarray, np.ndarray]:
    """The cells' order, and which differ from the one before. One number a cell where it fits."""
    new = np.ones(len(patient), dtype=bool)
    if math.prod(shape) < 2**63:
        key = np.ravel_multi_index((patient, *indices.T), shape)
        order = np.argsort(key)
        key = key[order]
        new[1:] = key[1:] != key[:-1]
        return order, new
    order = np.lexsort((*indices.T[::-1], patient))
    patient, indices = patient[order], indices[order]
    new[1:] = (patient[1:] != patient[:-1]) | (indices[1:] != indices[:-1]).any(axis=1)
    return order, new
