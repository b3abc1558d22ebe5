"""Counts as one small block per patient: own codes × own codes, in the form that costs least.

A patient has a handful of the codes there are, and those meet almost everywhere: the block of own
first-mode codes (rows) × own second-mode codes (columns) is mostly filled. Each patient's block is
kept in one of three forms, chosen by what a pass over it costs:

- *dense*: one byte a cell, no index at all;
- *windows*: the events themselves. A cell counts the windows in which both codes occur, so
  X_i = Σ_w m_w d_wᵀ and every product is a sum over events, never over their combinations; a cap
  adds a negative entry for each cell above it;
- *entries*: row, column and count, for blocks too empty, or counts too large, for a byte.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from tripheno.tensor import block_building_kernels as building
from tripheno.tensor import block_kernels as kernels
from tripheno.tensor.error_kernels import errors_at_cells
from tripheno.tensor.rows import solve_positive
from tripheno.tensor.threads import Lent, aligned, in_chunks, patient_chunks, sum_over_chunks
from tripheno.tensor.vectors import BYTES, ROWS, WIDEST
from tripheno.tensor.weights import WeightedPatients

COUNTS = np.arange(256.0)
WELL_CONDITIONED = 1e3  # an inverse of such a matrix solves to twelve digits and more


class Body(NamedTuple):
    """The arrays of all blocks. Patient i's part of each lies between its starts[i], [i + 1]."""

    row_starts: np.ndarray
    row_codes: np.ndarray
    column_starts: np.ndarray
    column_codes: np.ndarray
    dense_starts: np.ndarray
    dense: np.ndarray  # bytes by panel of four rows, column, row
    entry_starts: np.ndarray
    entry_rows: np.ndarray  # positions in the patient's own lists, as in the events below
    entry_columns: np.ndarray
    entry_values: np.ndarray
    window_starts: np.ndarray
    window_rows: np.ndarray  # where a window's row events begin
    window_columns: np.ndarray
    event_rows: np.ndarray
    event_columns: np.ndarray


class Scratch(NamedTuple):
    """What one thread writes while it works on one patient."""

    rows: np.ndarray  # a vector row per own row, filled to whole panels
    columns: np.ndarray
    sums: np.ndarray  # one per window
    row: np.ndarray
    scale: np.ndarray
    rhs: np.ndarray  # this and the rest in float64: for the solves and the errors
    rest: np.ndarray
    solution: np.ndarray
    triangle: np.ndarray
    passive: np.ndarray
    inside: np.ndarray
    turned: np.ndarray  # a panel, component by component
    expanded: np.ndarray  # the bytes of a block kept as windows


@dataclass(frozen=True)
class PatientBlocks(WeightedPatients):
    """Answers what `Cells` answers, for tensors with two feature modes."""

    body: Body
    starts: np.ndarray  # of each patient's cells, if they were written out
    sizes: tuple[int, ...]
    weights: np.ndarray | None = None

    @property
    def nonzeros(self) -> int:
        """Number of cells with a count."""
        return int(self.starts[-1])

    @cached_property
    def squared_norm(self) -> float:
        """‖O‖² = Σ w_i · count²: the error of a model that is zero."""
        nothing = [np.zeros((size, 1)) for size in self.sizes]
        return self.at_cells(nothing, np.zeros((self.patients, 1)))[0]

    @property
    def nbytes(self) -> int:
        """Memory of the stored counts."""
        return sum(array.nbytes for array in self.body) + self.starts.nbytes

    # ── written out ───────────────────────────────────────────────────────────────────────────

    @property
    def indices(self) -> np.ndarray:
        """Feature positions of every cell, written out anew each time."""
        return self._written_out()[0]

    @property
    def values(self) -> np.ndarray:
        """Count of every cell, written out anew each time."""
        return self._written_out()[1]

    def _written_out(self) -> tuple[np.ndarray, np.ndarray]:
        indices = np.empty((self.nonzeros, 2), dtype=np.int32)
        values = np.empty(self.nonzeros, dtype=np.uint32)
        in_chunks(
            self._chunks,
            lambda first, last: building.write_out(
                self.body, self._largest, self.starts, first, last, indices, values
            ),
        )
        small = int(values.max(initial=0)) < 256
        return indices, values.astype(np.uint8) if small else values

    # ── how the work is shared ────────────────────────────────────────────────────────────────

    @cached_property
    def _largest(self) -> np.ndarray:
        """Most rows (in whole panels), columns, windows, and largest block kept as windows."""
        rows = -(-np.diff(self.body.row_starts) // ROWS) * ROWS
        columns, windows = np.diff(self.body.column_starts), np.diff(self.body.window_starts)
        blocks = rows * columns * (windows > 0)
        most = [sizes.max(initial=0) for sizes in (rows, columns, windows, blocks)]
        return np.array(most, dtype=np.int64)

    @cached_property
    def _chunks(self) -> list[tuple[int, int]]:
        body = self.body
        cost = building.costs(body)
        return patient_chunks(np.concatenate([[0], np.cumsum(cost)]), max(self.sizes))

    def _scratch(self, stride: int, dtype: Any = np.float64) -> Lent[Scratch]:
        """Room for one patient's work, handed from chunk to chunk."""
        return Lent(lambda: self._new_scratch(stride, dtype))

    def _new_scratch(self, stride: int, dtype: Any) -> Scratch:
        rows, columns, windows, block = self._largest
        return Scratch(
            aligned(rows * stride, dtype),
            aligned(columns * stride, dtype),
            aligned(windows * stride, dtype),
            aligned(stride, dtype),
            np.zeros(stride, dtype),
            np.empty(stride),
            np.empty(stride),
            np.empty(stride),
            np.empty((stride, stride)),
            np.empty(stride, dtype=np.int64),
            np.zeros(stride, dtype=np.bool_),
            np.empty(ROWS * stride),
            np.empty(block, dtype=np.uint8),
        )

    def _sum(
        self, rows: int, stride: int, work: Callable[..., None], dtype: Any = np.float64
    ) -> np.ndarray:
        """Σ over chunks of what ``work`` adds to rows of zeros."""
        total = sum_over_chunks(self._chunks, rows * stride, work, dtype)
        return total.astype(np.float64, copy=False).reshape(rows, stride)

    # ── the products: in float32 where the factors are, in float64 otherwise ──────────────────

    def patient_product(self, features: Sequence[np.ndarray]) -> np.ndarray:
        """MTTKRP of the patient mode, O₍₁₎Π."""
        table, factors, stride, width = _in_vectors(features)
        out, lent = (
            np.empty((self.patients, features[0].shape[1])),
            self._scratch(stride, table.dtype),
        )

        def work(first: int, last: int) -> None:
            with lent() as scratch:
                kernels.patient_rows(
                    self.body, table, *factors, stride, width, scratch, first, last, out
                )

        in_chunks(self._chunks, work)
        return out

    def update_patients(
        self,
        features: Sequence[np.ndarray],
        gram: np.ndarray,
        *,
        nonnegative: bool,
        guess: np.ndarray | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """The patient factor that fits best, and the MTTKRP of the first feature mode: one pass."""
        table, factors, stride, width = _in_vectors(features)
        rank = len(gram)
        patients = np.zeros((self.patients, rank))
        if guess is not None:
            patients[:] = guess
        wide = [
            _filled(matrix, stride, np.float64)
            for matrix in (gram, solve_positive(gram, np.eye(rank)))
        ]
        gram = np.ascontiguousarray(gram)
        eigenvalues = np.linalg.eigvalsh(gram)
        weights = self.each_weight
        lent = self._scratch(stride, table.dtype)
        refine = bool(eigenvalues[-1] > WELL_CONDITIONED * eigenvalues[0])

        def work(first: int, last: int, part: np.ndarray) -> None:
            with lent() as scratch:
                kernels.solve_and_add(
                    self.body, table, *factors, stride, width, scratch,
                    gram, *wide, refine, nonnegative, weights, first, last, patients, part,
                )  # fmt: skip

        total = self._sum(self.sizes[0], stride, work, table.dtype)
        return patients, np.ascontiguousarray(total[:, :rank])

    def feature_product(
        self, features: Sequence[np.ndarray], patient_factor: np.ndarray, mode: int
    ) -> np.ndarray:
        """MTTKRP of a feature mode, O₍ₙ₎Π; mode 0 is the first feature mode."""
        table, factors, stride, width = _in_vectors(features)
        patients = self.weighted(patient_factor)
        kernel = (kernels.add_rows, kernels.add_columns)[mode]
        lent = self._scratch(stride, table.dtype)

        def work(first: int, last: int, part: np.ndarray) -> None:
            with lent() as scratch:
                kernel(
                    self.body, table, *factors, patients, stride, width, scratch, first, last, part
                )

        total = self._sum(self.sizes[mode], stride, work, table.dtype)
        return np.ascontiguousarray(total[:, : patients.shape[1]])

    def at_cells(
        self, features: Sequence[np.ndarray], patient_factor: np.ndarray
    ) -> tuple[float, float]:
        """Σ w_i (model − count)² and Σ w_i · model · count over the cells that hold a count."""
        exact = [np.asarray(factor, dtype=np.float64) for factor in features]
        _, factors, stride, _ = _in_vectors(exact)
        patients = np.ascontiguousarray(patient_factor, dtype=np.float64)
        weights, lent = self.each_weight, self._scratch(stride)

        def work(first: int, last: int, part: np.ndarray) -> None:
            with lent() as scratch:
                errors_at_cells(
                    self.body, *factors, patients, weights, stride, scratch, first, last, part
                )

        squared, inner = self._sum(1, 2, work)[0]
        return float(squared), float(inner)


def _in_vectors(
    features: Sequence[np.ndarray],
) -> tuple[np.ndarray, list[np.ndarray], int, tuple[int, ...]]:
    """The counts as numbers, flat factors, how long a row of theirs is, and how wide a strip.

    The factors' own type decides how precise the products are. Rows are filled with zeros to a
    whole number of strips: of one vector where that is all there is, else of the widest that waste
    least.
    """
    dtype = np.dtype(np.float32 if features[0].dtype == np.float32 else np.float64)
    lanes = BYTES // dtype.itemsize
    vectors = -(-features[0].shape[1] // lanes)
    strips = {width: -(-vectors // width) * width for width in range(min(vectors, 2), WIDEST + 1)}
    width = min(strips, key=lambda width: (strips[width], -width))
    stride = strips[width] * lanes
    flat = [_filled(factor, stride, dtype) for factor in features]
    return COUNTS.astype(dtype), flat, stride, (0,) * width


def _filled(matrix: np.ndarray, stride: int, dtype: Any) -> np.ndarray:
    """A matrix laid out flat, its rows filled with zeros to a whole number of vectors."""
    flat = aligned(len(matrix) * stride, dtype)
    flat[:] = 0.0
    flat.reshape(len(matrix), stride)[:, : matrix.shape[1]] = matrix
    return flat
