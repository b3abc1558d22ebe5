"""A hospital's counts in parts, patients one below the other: answers what one piece answers.

A part is `PatientBlocks` or `Cells`, in memory or as a view of a file that is mapped into it. Sums
go over the parts in their order, so they are those of one piece but for round-off. Of parts in
files only the one in hand is resident; the next is read ahead.
"""

from __future__ import annotations

import mmap
import os
import tempfile
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from tripheno.tensor.blocks import PatientBlocks
from tripheno.tensor.cells import Cells
from tripheno.tensor.part_files import saved_part
from tripheno.tensor.weights import WeightedPatients, joined_weights

Stored = Cells | PatientBlocks
ROWS_AT_ONCE = 1 << 16


class _Nameless:
    """A file that only this process sees and that goes with the last who holds it."""

    def __init__(self, folder: Path) -> None:
        self.descriptor, name = tempfile.mkstemp(dir=folder, suffix=".tmp")
        weakref.finalize(self, os.close, self.descriptor)
        Path(name).unlink()


class FileRows:
    """Patients × columns in a file without a name, read and written by runs of patients."""

    def __init__(
        self,
        shape: tuple[int, int],
        file: _Nameless,
        scale: np.ndarray | None = None,
    ) -> None:
        self.shape, self._file, self._scale = shape, file, scale

    def __len__(self) -> int:
        return self.shape[0]

    def __setitem__(self, at: slice, rows: np.ndarray) -> None:
        data = np.ascontiguousarray(rows, dtype=np.float64).data.cast("B")
        begin = at.start * self.shape[1] * 8
        while data:
            written = os.pwrite(self._file.descriptor, data, begin)
            data, begin = data[written:], begin + written

    def __getitem__(self, at: slice) -> np.ndarray:
        first, last, _ = at.indices(len(self))
        rows = np.empty((last - first, self.shape[1]))
        data, begin = rows.data.cast("B") if rows.size else b"", first * self.shape[1] * 8
        while data:
            read = os.preadv(self._file.descriptor, [data], begin)
            if read == 0:
                raise RuntimeError("rows are read before they are written")
            data, begin = data[read:], begin + read
        return rows if self._scale is None else rows * self._scale

    def __mul__(self, scale: np.ndarray) -> FileRows:
        """The same file, every column so many times as long."""
        whole = scale if self._scale is None else self._scale * scale
        return FileRows(self.shape, self._file, whole)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        del copy
        return self[:].astype(dtype or np.float64, copy=False)


@dataclass(frozen=True)
class PatientParts(WeightedPatients):
    """Parts on the same axes. ``files`` are the maps behind them, None for one in memory."""

    parts: tuple[Stored, ...]
    files: tuple[mmap.mmap | None, ...]
    folder: Path | None = None  # where what is made of these parts may be written
    weights: np.ndarray | None = None

    @property
    def sizes(self) -> tuple[int, ...]:
        """Of the feature modes."""
        return tuple(self.parts[0].sizes)

    @cached_property
    def bounds(self) -> np.ndarray:
        """The patient with which each part begins, and the last one's end."""
        return np.cumsum([0, *(part.patients for part in self.parts)])

    @cached_property
    def starts(self) -> np.ndarray:  # type: ignore[override]
        """Of each patient's cells, if they were written out."""
        lengths = np.concatenate([np.diff(part.starts) for part in self.parts])
        return np.concatenate([[0], np.cumsum(lengths)])

    @property
    def nonzeros(self) -> int:
        """Number of cells with a count."""
        return sum(part.nonzeros for part in self.parts)

    @cached_property
    def squared_norm(self) -> float:
        """‖O‖²."""
        return float(sum(part.squared_norm for _, part in self.each()))

    @property
    def indices(self) -> np.ndarray:
        """Feature positions of every cell, all in memory: for tensors that were never large."""
        return np.concatenate([part.indices for _, part in self.each()])

    @property
    def values(self) -> np.ndarray:
        """Count of every cell, as ``indices``."""
        return np.concatenate([part.values for _, part in self.each()])

    @cached_property
    def _weighted(self) -> list[Stored]:
        if self.weights is None:
            return list(self.parts)
        cuts = np.split(self.weights, self.bounds[1:-1])
        return [part.with_weights(own) for part, own in zip(self.parts, cuts, strict=True)]

    def each(self) -> Iterator[tuple[slice, Stored]]:
        """Which patients, and their part with their weights; the last one's memory is let go."""
        for n, part in enumerate(self._weighted):
            if n + 1 < len(self.files):
                _advise(self.files[n + 1], "MADV_WILLNEED")
            yield slice(int(self.bounds[n]), int(self.bounds[n + 1])), part
            _advise(self.files[n], "MADV_DONTNEED")

    def changed(self, change: Callable[[slice, Stored], Any]) -> PatientParts:
        """Each part as ``change`` makes it (None: left out), in memory or in a file as it was."""
        made: list[Stored] = []
        files: list[mmap.mmap | None] = []
        for at, part in replace(self, weights=None).each():
            new, file = change(at, part), None
            if new is None:
                continue
            if self.folder is not None:
                new, file = saved_part(new, self.folder)
            made.append(new)
            files.append(file)
        return PatientParts(tuple(made), tuple(files), self.folder)

    def room_for_rows(self, columns: int) -> FileRows | np.ndarray:
        """Patients × columns to be filled part by part."""
        if self.folder is None:
            return np.empty((self.patients, columns))
        return FileRows((self.patients, columns), _Nameless(self.folder))

    # ── the products ──────────────────────────────────────────────────────────────────────────

    def patient_product(self, features: Sequence[np.ndarray]) -> np.ndarray:
        """MTTKRP of the patient mode, O₍₁₎Π."""
        out = np.empty((self.patients, features[0].shape[1]))
        for at, part in self.each():
            out[at] = part.patient_product(features)
        return out

    def update_patients(
        self,
        features: Sequence[np.ndarray],
        gram: np.ndarray,
        *,
        nonnegative: bool,
        guess: np.ndarray | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """The patient factor that fits best, and the MTTKRP of the first feature mode."""
        patients = np.empty((self.patients, len(gram)))
        total = np.zeros((self.sizes[0], len(gram)))
        for at, part in self.each():
            known = None if guess is None else guess[at]
            patients[at], product = part.update_patients(
                features, gram, nonnegative=nonnegative, guess=known
            )
            total += product
        return patients, total

    def feature_product(
        self, features: Sequence[np.ndarray], patient_factor: np.ndarray, mode: int
    ) -> np.ndarray:
        """MTTKRP of a feature mode, O₍ₙ₎Π; mode 0 is the first feature mode."""
        total = np.zeros((self.sizes[mode], features[0].shape[1]))
        for at, part in self.each():
            total += part.feature_product(features, patient_factor[at], mode)
        return total

    def at_cells(
        self, features: Sequence[np.ndarray], patient_factor: np.ndarray
    ) -> tuple[float, float]:
        """Σ w_i (model − count)² and Σ w_i · model · count over the cells that hold a count."""
        squared = inner = 0.0
        for at, part in self.each():
            own = part.at_cells(features, patient_factor[at])
            squared, inner = squared + own[0], inner + own[1]
        return squared, inner

    def patient_gram(self, patient_factor: np.ndarray) -> np.ndarray:
        """AᵀWA, by runs of patients."""
        total = np.zeros((patient_factor.shape[1],) * 2)
        for first in range(0, self.patients, ROWS_AT_ONCE):
            rows = patient_factor[first : first + ROWS_AT_ONCE]
            if self.weights is not None:
                rows = rows * np.sqrt(self.weights[first : first + ROWS_AT_ONCE, None])
            total += rows.T @ rows
        return total


def parts_joined(several: Sequence[Stored | PatientParts]) -> PatientParts:
    """The parts of several hospitals, one hospital's below the other's."""
    parts: list[Stored] = []
    files: list[mmap.mmap | None] = []
    folder: Path | None = None
    for one in several:
        if isinstance(one, PatientParts):
            parts += one.parts
            files += one.files
            folder = folder or one.folder
        else:
            parts.append(one.with_weights(None))
            files.append(None)
    return PatientParts(tuple(parts), tuple(files), folder, joined_weights(several))


def _advise(file: mmap.mmap | None, advice: str) -> None:
    """Tell the system what a mapped file is needed for, where it listens."""
    if file is not None and hasattr(mmap, advice):
        file.madvise(getattr(mmap, advice))
