"""Events → counted cells, by the rule that says which events belong together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tripheno.errors import BadEvents, BadShape, EmptyTensor
from tripheno.records.events import CountingRule
from tripheno.tensor import counting_kernels as kernels
from tripheno.tensor.block_building import blocks_of_windows, starts_of
from tripheno.tensor.blocks import PatientBlocks
from tripheno.tensor.cells import LARGEST_SIZE, Cells
from tripheno.tensor.parts import PatientParts
from tripheno.tensor.threads import in_chunks, patient_chunks
from tripheno.vocabulary.axis import Axis, encoded

Stored = TypeVar("Stored", Cells | PatientBlocks, PatientParts)

KEYS_AT_ONCE = 1 << 23  # bounds the scratch memory of one chunk of patients to about 128 MB


def count_events(
    events: pa.Table, axes: Sequence[Axis], rule: CountingRule
) -> Cells | PatientBlocks:
    """The cells that an event table gives on the given axes.

    Patients keep their numbers: row i of the tensor is patient i, and patients up to the largest
    number are present even when they have no cell. Codes that are not on the axes are left out.
    """
    patients = 1 + int(pc.max(events["patient"]).as_py())
    if patients > LARGEST_SIZE:
        raise BadEvents(
            f"'patient' goes beyond {LARGEST_SIZE:,}",
            why="a patient's number is a row of the tensor",
            fix="number the patients 0, 1, 2, …",
        )
    return filled(counted(events, axes, rule, patients), rule)


def counted(
    events: pa.Table, axes: Sequence[Axis], rule: CountingRule, patients: int
) -> Cells | PatientBlocks:
    """The cells of so many patients, even if there is none."""
    patient, window, time, position = _columns(events, axes, rule)
    sizes = np.array([axis.size for axis in axes], dtype=np.int64)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    strides = _strides(sizes)
    cap = rule.cap or 0
    if rule.sliding_width is None:
        windows, patient_windows, distinct = _group(
            patient, window, position, int(offsets[-1]), patients
        )
        if len(sizes) == 2:
            blocks = blocks_of_windows(
                windows, patient_windows, distinct, tuple(sizes.tolist()), rule.cap
            )
            if blocks is not None:
                return blocks
        bounds = np.empty(patients, dtype=np.int64)
        kernels.window_bounds(windows, patient_windows, distinct, offsets, bounds)

        def count(first: int, last: int, *out: np.ndarray) -> int:
            return int(
                kernels.count_windows(
                    windows, patient_windows, distinct, offsets, strides, cap, first, last, *out
                )
            )
    else:
        width = rule.sliding_width
        order = np.lexsort((time, position >= offsets[1], patient))
        time, position = time[order], position[order]
        starts = np.searchsorted(patient[order], np.arange(patients + 1))
        second = np.add.reduceat(
            np.concatenate([position >= offsets[1], [False]]), starts[:-1], dtype=np.int64
        )
        second[starts[:-1] == starts[1:]] = 0
        boundaries = starts[1:] - second
        bounds = np.empty(patients, dtype=np.int64)
        kernels.sliding_bounds(time, starts, boundaries, width, bounds)

        def count(first: int, last: int, *out: np.ndarray) -> int:
            return int(
                kernels.count_sliding(
                    time,
                    starts,
                    boundaries,
                    position,
                    offsets,
                    strides,
                    width,
                    cap,
                    first,
                    last,
                    *out,
                )
            )

    return _count_in_chunks(bounds, sizes, strides, count)


def filled(cells: Stored, rule: CountingRule) -> Stored:
    """The cells, or an error if there is none."""
    if cells.nonzeros == 0:
        raise EmptyTensor(
            f"No patient has codes of {' and '.join(rule.modes)} in one window",
            where=f"window rule '{rule.window}'",
            fix="do all tables write ids alike? else check --modes, or use a wider --window",
        )
    return cells


def _columns(
    events: pa.Table, axes: Sequence[Axis], rule: CountingRule
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Patient, window, time and stacked position of every event of the modes that count."""
    position = _stacked_positions(events, axes)
    chosen = position >= 0
    position = position[chosen]
    patient = events["patient"].to_numpy()[chosen]
    blank = np.zeros(len(position), dtype=np.int64)
    needs_time = rule.sliding_width is not None or rule.calendar_width is not None
    time = _whole(events, "time", chosen, rule) if needs_time else blank
    window = _whole(events, "window", chosen, rule) if rule.window == "visit" else blank
    if rule.calendar_width is not None:
        window = time // rule.calendar_width
    return patient, window, time, position


def _whole(events: pa.Table, name: str, chosen: np.ndarray, rule: CountingRule) -> np.ndarray:
    """A column without gaps as int64, or an error that counts the gaps."""
    column = events[name].cast(pa.int64()).filter(pa.array(chosen))
    if column.null_count:
        raise BadEvents(
            f"{column.null_count:,} of {len(column):,} events have no {name}",
            why=f"the window rule '{rule.window}' needs it",
            fix="drop these events, or use another --window",
        )
    return np.asarray(column.to_numpy(), dtype=np.int64)


def _stacked_positions(events: pa.Table, axes: Sequence[Axis]) -> np.ndarray:
    """Every event's row on the axes stacked one below the other, −1 for one that does not count."""
    mode, mode_names = encoded(events["mode"])
    code, codes = encoded(events["code"])
    table = np.full((len(mode_names), len(codes)), -1, dtype=np.int64)
    offset = 0
    for axis in axes:
        if axis.mode in mode_names:
            positions = axis.positions(codes)
            table[mode_names.index(axis.mode)] = np.where(positions < 0, -1, positions + offset)
        offset += axis.size
    return np.asarray(table[mode, code])


def _strides(sizes: np.ndarray) -> np.ndarray:
    """Row-major strides of a cell's key, checked to fit a 64-bit number."""
    if float(np.prod(sizes.astype(float))) >= 2.0**62:
        raise BadShape("the feature modes have too many combinations for a 64-bit cell number")
    return np.concatenate([np.cumprod(sizes[::-1])[-2::-1], [1]]).astype(np.int64)


def _group(
    patient: np.ndarray, window: np.ndarray, position: np.ndarray, positions: int, patients: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Distinct events by patient, window and position, with where windows and patients begin.

    Events are dealt out to their patients first, so that only short runs need sorting.
    """
    lowest, highest = int(window.min(initial=0)), int(window.max(initial=0))
    if (highest - lowest + 1) * positions >= 2**62:
        window = np.unique(window, return_inverse=True)[1]
        lowest = 0
    starts = starts_of(np.bincount(patient, minlength=patients))
    keys = np.empty(len(patient), dtype=np.int64)
    kernels.keys_by_patient(patient, window, position, lowest, positions, starts[:-1].copy(), keys)
    kept, opened = np.zeros((2, patients), dtype=np.int64)
    chunks = patient_chunks(starts)
    in_chunks(
        chunks,
        lambda first, last: kernels.sort_patients(
            keys, starts, positions, first, last, kept, opened
        ),
    )
    event_starts, patient_windows = starts_of(kept), starts_of(opened)
    windows = np.empty(patient_windows[-1] + 1, dtype=np.int64)
    events = np.empty(event_starts[-1], dtype=np.int32)
    windows[-1] = len(events)
    in_chunks(
        chunks,
        lambda first, last: kernels.split_keys(
            keys, starts, positions, first, last, event_starts, patient_windows, windows, events
        ),
    )
    return windows, patient_windows, events


def _count_in_chunks(
    bounds: np.ndarray, sizes: np.ndarray, strides: np.ndarray, count: Callable[..., int]
) -> Cells:
    """Count patients chunk by chunk, so that scratch memory does not grow with the hospital."""
    per_patient = np.zeros(len(bounds), dtype=np.int64)
    parts: list[tuple[np.ndarray, np.ndarray]] = []
    for first, last in _chunks(bounds):
        scratch = int(bounds[first:last].sum())
        keys = np.empty(scratch, dtype=np.int64)
        counts = np.empty(scratch, dtype=np.int64)
        filled = count(first, last, keys, counts, per_patient)
        remaining = keys[:filled]
        columns = np.empty((filled, len(sizes)), dtype=np.int32)
        for n, stride in enumerate(strides):
            columns[:, n], remaining = np.divmod(remaining, stride)
        parts.append((columns, counts[:filled].copy()))
    starts = np.concatenate([[0], np.cumsum(per_patient)])
    indices = np.concatenate([columns for columns, _ in parts])
    return Cells(starts, indices, np.concatenate([values for _, values in parts]), tuple(sizes))


def _chunks(bounds: np.ndarray) -> Iterator[tuple[int, int]]:
    """Runs of patients whose keys fit the scratch memory (one patient at least)."""
    total = np.concatenate([[0], np.cumsum(bounds)])
    first = 0
    while first < len(bounds):
        last = int(np.searchsorted(total, total[first] + KEYS_AT_ONCE, side="right")) - 1
        last = min(max(last, first + 1), len(bounds))
        yield first, last
        first = last
