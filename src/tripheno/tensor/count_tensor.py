"""One hospital's counts: patients × two or more feature modes."""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from tripheno.errors import (
    BadCells,
    BadShape,
    EmptyTensor,
    NoSuchFile,
    SettingsError,
    UnreadableTable,
)
from tripheno.records.events import CountingRule, check_events, counting_rule
from tripheno.records.textfile import lines
from tripheno.tensor.block_building import in_blocks, joined, selected
from tripheno.tensor.blocks import PatientBlocks
from tripheno.tensor.cells import LARGEST_SIZE, Cells, sorted_cells
from tripheno.tensor.counting import count_events
from tripheno.tensor.parts import PatientParts, parts_joined
from tripheno.tensor.shards import PatientShards
from tripheno.tensor.weights import joined_weights
from tripheno.vocabulary.axis import Axis, axis_of_events


@dataclass(frozen=True)
class CountTensor:
    """A sparse tensor of counts whose first mode is the patient; its feature axes carry codes.

    Make one with :meth:`from_events`, :meth:`from_cells` or :meth:`from_tns`.
    """

    axes: tuple[Axis, ...]
    cells: Cells | PatientBlocks | PatientParts

    def __post_init__(self) -> None:
        if isinstance(self.cells, Cells):
            object.__setattr__(self, "cells", in_blocks(self.cells))
        if len(self.axes) < 2:
            raise BadShape(
                f"{len(self.axes)} feature mode(s)",
                why="a tensor has a patient mode and two or more",
            )
        if tuple(axis.size for axis in self.axes) != tuple(self.cells.sizes):
            raise BadShape("axes and cells differ in size")

    def __repr__(self) -> str:
        sizes = ", ".join(f"{axis.size:,} {axis.mode} codes" for axis in self.axes)
        return f"<CountTensor: {self.patients:,} patients, {sizes}, {self.nonzeros:,} cells>"

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{escape(axis.mode)}</td><td>{axis.size:,} codes</td></tr>"
            for axis in self.axes
        )
        return (
            f"<table><thead><tr><th>patient</th><th>{self.patients:,}</th></tr></thead>"
            f"<tbody>{rows}<tr><td>cells</td><td>{self.nonzeros:,}</td></tr></tbody></table>"
        )

    @property
    def shape(self) -> tuple[int, ...]:
        """Patients first, then the size of each feature mode."""
        return (self.cells.patients, *(axis.size for axis in self.axes))

    @property
    def modes(self) -> tuple[str, ...]:
        """Names of the feature modes."""
        return tuple(axis.mode for axis in self.axes)

    @property
    def patients(self) -> int:
        """Number of patients."""
        return self.cells.patients

    @property
    def nonzeros(self) -> int:
        """Number of cells with a count."""
        return self.cells.nonzeros

    @property
    def squared_norm(self) -> float:
        """‖O‖², each patient's part by the patient's weight."""
        return self.cells.squared_norm

    # ── ways in ───────────────────────────────────────────────────────────────────────────────

    @classmethod
    def from_events(
        cls,
        table: Any,
        *,
        modes: Sequence[str] | None = None,
        window: str | None = None,
        cap: int | None = None,
        rule: CountingRule | None = None,
        axes: Sequence[Axis] | None = None,
    ) -> CountTensor:
        """Count an event table.

        The rule is the one the table was written with, unless given whole (``rule``) or in part
        (``modes``, ``window``, ``cap``). Without ``axes``, each mode's axis holds the codes of this
        table, sorted.
        """
        events = check_events(table)
        rule = rule or counting_rule(events)
        rule = CountingRule(
            tuple(modes) if modes else rule.modes,
            window or rule.window,
            rule.cap if cap is None else cap,
        )
        chosen = tuple(axes) if axes else tuple(axis_of_events(events, m) for m in rule.modes)
        if tuple(axis.mode for axis in chosen) != rule.modes:
            raise BadShape(f"axes of {[a.mode for a in chosen]} for modes {list(rule.modes)}")
        empty = [axis.mode for axis in chosen if axis.size == 0]
        if empty:
            raise EmptyTensor(
                f"No events of mode {', '.join(empty)}", fix="check --modes and the records read"
            )
        return cls(chosen, count_events(events, chosen, rule))

    @classmethod
    def from_cells(
        cls,
        indices: Any,
        values: Any,
        *,
        shape: Sequence[int] | None = None,
        modes: Sequence[str] | None = None,
        axes: Sequence[Axis] | None = None,
        cap: int | None = None,
    ) -> CountTensor:
        """From coordinates (nonzeros × modes, patient first) and counts; equal cells are added."""
        indices, values = _checked_cells(indices, values)
        if shape is None:
            tops = [int(top) + 1 for top in indices.max(axis=0)]
            shape = tops if axes is None else [tops[0], *(axis.size for axis in axes)]
        if len(shape) != indices.shape[1]:
            raise BadCells(f"indices have {indices.shape[1]} modes, the shape {len(shape)}")
        if max(shape) > LARGEST_SIZE:
            raise BadCells(
                f"a mode is longer than {LARGEST_SIZE:,}", fix="number its positions from 0"
            )
        if cap is not None and cap < 1:
            raise SettingsError(f"cap must be 1 or more, not {cap}", where="cells")
        if (indices.max(axis=0) >= np.asarray(shape)).any():
            raise BadCells("an index lies outside the shape", where=f"shape {tuple(shape)}")
        if axes is None:
            names = modes or [f"mode{n}" for n in range(2, len(shape) + 1)]
            if len(names) != len(shape) - 1:
                raise BadShape(f"{len(names)} name(s) for {len(shape) - 1} feature mode(s)")
            axes = [Axis(name, int(size)) for name, size in zip(names, shape[1:], strict=True)]
        whole = tuple(int(size) for size in shape)
        cells = sorted_cells(indices[:, 0], indices[:, 1:], values, whole, cap)
        return cls(tuple(axes), cells)

    @classmethod
    def from_tns(cls, path: str | Path, *, modes: Sequence[str] | None = None) -> CountTensor:
        """From a FROSTT file: one cell a line, indices then the value; packed ones are unpacked.

        Indices start at 1; a mode in which a 0 occurs is taken to start at 0.
        """
        path = Path(path)
        if not path.is_file():
            raise NoSuchFile(f"No file {path}")
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # an empty file is refused below
                rows = np.loadtxt(lines(path), comments="#", ndmin=2)
        except (ValueError, OSError, EOFError, zlib.error, UnreadableTable) as fault:
            raise BadCells(
                "cannot be read as a FROSTT tensor",
                where=path.name,
                why=type(fault).__name__,
                fix="one cell a line: whole-number indices, then the count",
            ) from None
        if rows.shape[0] == 0 or rows.shape[1] < 4:
            raise BadCells("needs at least one line of three indices and a value", where=path.name)
        indices = rows[:, :-1]
        base = np.where(indices.min(axis=0) >= 1, 1, 0)
        return cls.from_cells(indices - base, rows[:, -1], modes=modes)

    # ── ways on ───────────────────────────────────────────────────────────────────────────────

    def on_axes(self, axes: Sequence[Axis]) -> CountTensor:
        """The same counts on other axes (a federation's). Codes the axes lack are left out."""
        if tuple(axis.mode for axis in axes) != self.modes:
            raise BadShape(f"modes {[a.mode for a in axes]} for a tensor of {list(self.modes)}")
        if all(new == old for new, old in zip(axes, self.axes, strict=True)):
            return replace(self, axes=tuple(axes))
        if isinstance(self.cells, PatientParts):
            moved = self.cells.changed(
                lambda _, part: CountTensor(self.axes, part).on_axes(axes).cells
            )
            return CountTensor(tuple(axes), moved.with_weights(self.cells.weights))
        columns = []
        for n, (old, new) in enumerate(zip(self.axes, axes, strict=True)):
            column = self.cells.indices[:, n].astype(np.int64)
            if old.codes is None:
                if old.size > new.size:
                    raise BadShape(
                        "the axis has no codes and is longer than the new one", where=old.mode
                    )
                columns.append(column)
            else:
                columns.append(new.positions(old.codes)[column])
        indices = np.column_stack(columns)
        kept = (indices >= 0).all(axis=1)
        shape = (self.patients, *(axis.size for axis in axes))
        values = self.cells.values[kept].astype(np.int64)
        cells = sorted_cells(self.patient_of_cell[kept], indices[kept], values, shape)
        return CountTensor(tuple(axes), replace(cells, weights=self.cells.weights))

    def pieces(self) -> Iterator[tuple[slice, CountTensor]]:
        """Which patients, and their counts in memory: all at once, or a part after the other."""
        if not isinstance(self.cells, PatientParts):
            yield slice(0, self.patients), self
            return
        for at, part in self.cells.each():
            yield at, CountTensor(self.axes, part)

    def room_for_rows(self, columns: int) -> Any:
        """Patients × columns, to be filled and read piece by piece; in a file where large."""
        if isinstance(self.cells, PatientParts):
            return self.cells.room_for_rows(columns)
        return np.empty((self.patients, columns))

    def with_its_patients(self, rows: np.ndarray) -> Any:
        """Rows that are asked about often, brought to where the patients are."""
        if isinstance(self.cells, PatientShards):
            return self.cells.pool.scattered(self.cells.cuts, rows)
        return rows

    @property
    def patient_of_cell(self) -> np.ndarray:
        """The patient row of every cell."""
        return np.repeat(np.arange(self.patients), np.diff(self.cells.starts))

    def people_at_positions(self) -> list[np.ndarray]:
        """For every feature mode, how many people have a cell at each position."""
        found = [np.zeros(axis.size) for axis in self.axes]
        for _, piece in self.pieces():
            found = [people + own for people, own in zip(found, piece._people(), strict=True)]
        return found

    def _people(self) -> Iterator[np.ndarray]:
        if isinstance(self.cells, PatientBlocks):  # a patient's own codes stand there once each
            body = self.cells.body
            for codes, axis in zip((body.row_codes, body.column_codes), self.axes, strict=True):
                yield np.bincount(codes, minlength=axis.size)
            return
        for n, axis in enumerate(self.axes):
            place = self.cells.indices[:, n].astype(np.int64)
            pairs = np.unique(self.patient_of_cell * axis.size + place)
            yield np.bincount(pairs % axis.size, minlength=axis.size)

    @cached_property
    def written_out(self) -> Cells:
        """The cells one by one, for loops that visit each of them; made once and kept."""
        own = self.cells
        return Cells(own.starts, own.indices, own.values, tuple(own.sizes), own.weights)

    def coordinates(self) -> tuple[np.ndarray, np.ndarray]:
        """Every cell as (indices with the patient first, count)."""
        indices = np.column_stack([self.patient_of_cell, self.cells.indices.astype(np.int64)])
        return indices, self.cells.values.astype(np.int64)

    def select_patients(self, rows: np.ndarray) -> CountTensor:
        """The tensor of some patients, in the order given."""
        rows = np.arange(self.patients)[rows]
        if isinstance(self.cells, PatientParts):
            return self._selected_parts(rows)
        if isinstance(self.cells, PatientBlocks):
            return CountTensor(self.axes, selected(self.cells, rows))
        lengths = np.diff(self.cells.starts)[rows]
        starts = np.concatenate([[0], np.cumsum(lengths)])
        within = np.arange(starts[-1]) - np.repeat(starts[:-1], lengths)
        chosen = np.repeat(self.cells.starts[:-1][rows], lengths) + within
        cells = Cells(
            starts,
            self.cells.indices[chosen],
            self.cells.values[chosen],
            self.cells.sizes,
            None if self.cells.weights is None else self.cells.weights[rows],
        )
        return CountTensor(self.axes, cells)

    def _selected_parts(self, rows: np.ndarray) -> CountTensor:
        """Some patients of every part; a part is read once, so they come in ascending order."""
        assert isinstance(self.cells, PatientParts)
        if (np.diff(rows) <= 0).any():
            raise BadShape("patients of a large hospital can only be taken in ascending order")
        weights = self.cells.weights

        def chosen(at: slice, part: Cells | PatientBlocks) -> Any:
            first, last = np.searchsorted(rows, (at.start, at.stop))
            own = CountTensor(self.axes, part).select_patients(rows[first:last] - at.start)
            return own.cells if first < last else None

        kept = self.cells.changed(chosen)
        return CountTensor(self.axes, kept.with_weights(None if weights is None else weights[rows]))

    def with_weights(self, weights: np.ndarray | None) -> CountTensor:
        """The same counts, patient i taking part in every sum with ``weights[i]``; None for 1 each.

        The objective is Σ_i w_i‖X_i − O_i‖². A patient's own row does not depend on the weight.
        """
        return replace(self, cells=self.cells.with_weights(weights))

    def drop_unused(self) -> CountTensor:
        """Without the patients and codes that take part in no cell."""
        kept = [np.flatnonzero(people) for people in self.people_at_positions()]
        axes = []
        for axis, positions in zip(self.axes, kept, strict=True):
            codes = None if axis.codes is None else tuple(axis.codes[p] for p in positions)
            axes.append(Axis(axis.mode, len(positions), codes, axis.labels))
        busy = np.diff(self.cells.starts) > 0
        if isinstance(self.cells, PatientParts):
            return self.select_patients(busy).on_axes(axes)
        columns = [
            np.searchsorted(positions, column)
            for positions, column in zip(kept, self.cells.indices.T, strict=True)
        ]
        starts = np.concatenate([self.cells.starts[:-1][busy], self.cells.starts[-1:]])
        sizes = tuple(axis.size for axis in axes)
        weights = None if self.cells.weights is None else self.cells.weights[busy]
        cells = Cells(starts, np.column_stack(columns), self.cells.values, sizes, weights)
        return CountTensor(tuple(axes), cells)

    def to_tensorly(self) -> np.ndarray:
        """A dense array, as TensorLy and numpy take it. For small tensors only."""
        dense = np.zeros(self.shape)
        indices, values = self.coordinates()
        dense[tuple(indices.T)] = values
        return dense


def pooled(tensors: Sequence[CountTensor]) -> CountTensor:
    """All patients in one place: what the central model computes on, and no hospital may hold."""
    axes = tensors[0].axes
    if any(tensor.axes != axes for tensor in tensors):
        raise BadShape("the hospitals' axes differ", fix="align them first")
    if any(isinstance(tensor.cells, PatientParts) for tensor in tensors):
        return CountTensor(axes, parts_joined([tensor.cells for tensor in tensors]))
    blocks = [tensor.cells for tensor in tensors if isinstance(tensor.cells, PatientBlocks)]
    if len(blocks) == len(tensors):
        return CountTensor(axes, joined(blocks))
    starts = [tensors[0].cells.starts]
    for tensor in tensors[1:]:
        starts.append(tensor.cells.starts[1:] + starts[-1][-1])
    cells = Cells(
        np.concatenate(starts),
        np.concatenate([tensor.cells.indices for tensor in tensors]),
        np.concatenate([tensor.cells.values for tensor in tensors]),
        tensors[0].cells.sizes,
        joined_weights([tensor.cells for tensor in tensors]),
    )
    return CountTensor(axes, cells)


def _checked_cells(indices: Any, values: Any) -> tuple[np.ndarray, np.ndarray]:
    """Whole, finite, non-negative indices and counts as int64, or every fault at once."""
    try:
        indices, values = np.asarray(indices), np.asarray(values)
    except ValueError:
        raise BadCells("the rows of indices differ in length") from None
    if (
        indices.ndim != 2
        or indices.shape[1] == 0
        or values.ndim != 1
        or len(indices) != len(values)
    ):
        raise BadCells(f"indices {indices.shape} and values {values.shape} do not belong together")
    if len(values) == 0:
        raise EmptyTensor("There are no cells", fix="check the input")
    faults = []
    for name, array in (("an index", indices), ("a count", values)):
        if array.dtype.kind not in "iuf":
            faults.append(f"{name} is not a number")
        elif array.dtype.kind == "f" and not np.isfinite(array).all():
            faults.append(f"{name} is not finite")
        elif array.min() < 0:
            faults.append(f"{name} is negative")
        elif array.dtype.kind == "f" and (array != np.floor(array)).any():
            faults.append(f"{name} is fractional")
        elif float(array.max()) >= 2.0**53:
            faults.append(f"{name} is too large")
    if faults:
        raise BadCells("; ".join(faults), fix="a cell is a whole count at whole positions")
    if not (values > 0).any():
        raise EmptyTensor("Every count is zero", fix="check the input")
    whole = indices if indices.dtype.kind == "i" else indices.astype(np.int64)
    return whole, values.astype(np.int64, copy=False)
