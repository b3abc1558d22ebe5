"""Counts as cells in patient order, and the products the solvers need of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tripheno.errors import BadCells
from tripheno.tensor import kernels
from tripheno.tensor.counting_kernels import (
    add_equal_cells,
    scatter_by_digit,
    starts_of_digits,
)
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
    """Cells from coordinates in any order; equal ones are added, then capped; zeros are dropped.

    A cell is one number: patient, features, count. It is sorted mode by mode, the last one first.
    """
    widths = [int(size - 1).bit_length() for size in shape]
    shift = int(values.max(initial=0)).bit_length()
    if sum(widths) + shift > 62:  # the number would not fit
        return _sorted_columns(patient, indices, values, shape, cap)
    keys = patient.astype(np.int64)
    for column, width in zip((*indices.T, values), (*widths[1:], shift), strict=True):
        keys <<= width
        keys |= column
    other = np.empty_like(keys)
    for width, place in zip(widths[::-1], np.cumsum([shift, *widths[:0:-1]]), strict=True):
        starts = starts_of_digits(keys, place, width)
        scatter_by_digit(keys, place, width, starts.copy(), other)
        keys, other = other, keys
    starts = starts[: shape[0] + 1]
    found = np.empty((len(keys), len(shape) - 1), dtype=np.int32)
    bits, sums = np.array(widths[1:], dtype=np.int64), other
    add_equal_cells(keys, bits, shift, found, sums)
    filled = sums > 0
    if not filled.all():
        starts = np.concatenate([[0], np.cumsum(filled)])[starts]
        found, sums = found[filled], sums[filled]
    return Cells(starts, found, sums if cap is None else np.minimum(sums, cap), shape[1:])


def _sorted_columns(
    patient: np.ndarray,
    indices: np.ndarray,
    values: np.ndarray,
    shape: tuple[int, ...],
    cap: int | None,
) -> Cells:
    """The same, column by column, for axes or counts too long for one number."""
    order = np.lexsort((*indices.T[::-1], patient))
    patient, indices, values = patient[order], indices[order], values[order]
    new = np.ones(len(patient), dtype=bool)
    new[1:] = (patient[1:] != patient[:-1]) | (indices[1:] != indices[:-1]).any(axis=1)
    begins = np.flatnonzero(new)
    values = np.add.reduceat(values, begins)
    filled = values > 0
    begins, values = begins[filled], values[filled]
    starts = np.searchsorted(patient[begins], np.arange(shape[0] + 1))
    values = values if cap is None else np.minimum(values, cap)
    return Cells(starts, indices[begins], values, shape[1:])
