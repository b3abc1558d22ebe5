"""Patient blocks from cells or from windows of events: which form each patient gets, and why."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import numpy as np

from tripheno.tensor import block_building_kernels as kernels
from tripheno.tensor.blocks import Body, PatientBlocks
from tripheno.tensor.cells import Cells
from tripheno.tensor.threads import in_chunks, patient_chunks
from tripheno.tensor.vectors import ROWS
from tripheno.tensor.weights import joined_weights

# Cycles of one pass at rank 10, about: a dense cell, an entry, an event of a window.
CYCLES_OF_A_CELL, CYCLES_OF_AN_ENTRY, CYCLES_OF_AN_EVENT = 2, 12, 12
LARGEST_BYTE = 255
LONGEST_LIST = 2**16  # positions in a patient's own lists are 16-bit numbers
LARGEST_ENTRY = 2**31 - 1
DENSE, WINDOWS, ENTRIES = range(3)

log = logging.getLogger("tripheno.tensor")


def in_blocks(cells: Cells) -> PatientBlocks | Cells:
    """The same counts as patient blocks, or as they are where blocks cannot hold them."""
    if len(cells.sizes) != 2 or cells.nonzeros == 0:
        return cells
    sizes = np.array(cells.sizes, dtype=np.int64)
    seen = np.zeros((cells.patients, 3), dtype=np.int64)
    chunks = patient_chunks(cells.starts)
    in_chunks(
        chunks,
        lambda first, last: kernels.measure_cells(
            cells.starts, cells.indices, cells.values, sizes, first, last, seen
        ),
    )
    rows, columns, largest = seen.T
    if max(rows.max(), columns.max()) > LONGEST_LIST or largest.max() > LARGEST_ENTRY:
        return cells
    nonzeros = np.diff(cells.starts)
    padded = -(-rows // ROWS) * ROWS * columns
    is_dense = padded * CYCLES_OF_A_CELL <= nonzeros * CYCLES_OF_AN_ENTRY
    is_dense &= largest <= LARGEST_BYTE
    body = empty_body(
        rows, columns, dense=np.where(is_dense, padded, 0), entries=np.where(is_dense, 0, nonzeros)
    )
    in_chunks(
        chunks,
        lambda first, last: kernels.fill_from_cells(
            body, cells.starts, cells.indices, cells.values, sizes, first, last
        ),
    )
    return logged(PatientBlocks(body, cells.starts, cells.sizes, cells.weights))


def blocks_of_windows(
    windows: np.ndarray,
    patient_windows: np.ndarray,
    events: np.ndarray,
    sizes: tuple[int, ...],
    cap: int | None,
) -> PatientBlocks | None:
    """Blocks of patients whose events share windows; None where blocks cannot hold the counts.

    ``events`` are distinct positions on the two stacked axes, sorted within each window.
    """
    patients = len(patient_windows) - 1
    top = cap or np.iinfo(np.int64).max
    seen = np.zeros((patients, 8), dtype=np.int64)
    chunks = patient_chunks(windows[patient_windows])
    rule = (events, windows, patient_windows, sizes[0], np.array(sizes, dtype=np.int64), top)
    small = in_chunks(chunks, lambda first, last: kernels.measure_windows(*rule, first, last, seen))
    rows, columns, shared, row_events, column_events, cells, above, largest = seen.T
    if not all(small) or max(rows.max(), columns.max()) > LONGEST_LIST:
        return None
    padded = -(-rows // ROWS) * ROWS * columns
    form = _cheapest(
        padded=padded,
        cells=cells,
        events=row_events + column_events,
        above=above,
        windows=shared,
        largest=largest,
    )
    kept = form == WINDOWS
    body = empty_body(
        rows,
        columns,
        dense=np.where(form == DENSE, padded, 0),
        entries=np.select([form == ENTRIES, kept], [cells, above], 0),
        windows=np.where(kept, shared, 0),
        row_events=int(row_events[kept].sum()),
        column_events=int(column_events[kept].sum()),
    )
    body.window_rows[-1], body.window_columns[-1] = len(body.event_rows), len(body.event_columns)
    event_starts = np.stack(
        [starts_of(np.where(kept, events, 0)) for events in (row_events, column_events)]
    )
    in_chunks(
        chunks,
        lambda first, last: kernels.fill_from_windows(body, *rule, event_starts, first, last),
    )
    return logged(PatientBlocks(body, starts_of(cells), sizes))


def _cheapest(
    *,
    padded: np.ndarray,
    cells: np.ndarray,
    events: np.ndarray,
    above: np.ndarray,
    windows: np.ndarray,
    largest: np.ndarray,
) -> np.ndarray:
    """The form of each patient whose pass takes the fewest cycles, among those that can hold it."""
    never = np.iinfo(np.int64).max
    dense = np.where(largest <= LARGEST_BYTE, CYCLES_OF_A_CELL * padded, never)
    few = windows <= LARGEST_BYTE  # so that the counts can be written out as bytes
    windowed = np.where(few, CYCLES_OF_AN_EVENT * events + CYCLES_OF_AN_ENTRY * above, never)
    costs = np.stack([dense, windowed, CYCLES_OF_AN_ENTRY * cells])
    return np.asarray(costs.argmin(axis=0))


def joined(parts: Sequence[PatientBlocks]) -> PatientBlocks:
    """The patients of several tensors on the same axes, one below the other."""
    columns = []
    for name in Body._fields:
        arrays = [getattr(part.body, name) for part in parts]
        starts = name.endswith("_starts") or name in {"window_rows", "window_columns"}
        columns.append(_joined_starts(arrays) if starts else np.concatenate(arrays))
    cell_starts = _joined_starts([part.starts for part in parts])
    return PatientBlocks(Body(*columns), cell_starts, parts[0].sizes, joined_weights(parts))


def selected(blocks: PatientBlocks, rows: np.ndarray) -> PatientBlocks:
    """Some patients in the order given, each in the form it has."""
    body = blocks.body
    rows = np.asarray(rows, dtype=np.int64)

    def copied(name: str, starts: np.ndarray) -> np.ndarray:
        source = getattr(body, name)
        new = starts_of(np.diff(starts)[rows])
        out = np.empty(new[-1], dtype=source.dtype)
        kernels.copy_runs(source, starts, rows, new, out)
        return out

    def lengths(name: str, starts: np.ndarray) -> np.ndarray:
        each = np.diff(getattr(body, name))
        new = starts_of(np.diff(starts)[rows])
        out = np.empty(new[-1], dtype=np.int64)
        kernels.copy_runs(each, starts, rows, new, out)
        return starts_of(out)

    parts: dict[str, np.ndarray] = {}
    for kind, names in {
        "row_starts": ("row_codes",),
        "column_starts": ("column_codes",),
        "dense_starts": ("dense",),
        "entry_starts": ("entry_rows", "entry_columns", "entry_values"),
    }.items():
        starts = getattr(body, kind)
        parts[kind] = starts_of(np.diff(starts)[rows])
        parts |= {name: copied(name, starts) for name in names}
    parts["window_starts"] = starts_of(np.diff(body.window_starts)[rows])
    for name, events in (("window_rows", "event_rows"), ("window_columns", "event_columns")):
        parts[name] = lengths(name, body.window_starts)
        parts[events] = copied(events, getattr(body, name)[body.window_starts])
    weights = None if blocks.weights is None else blocks.weights[rows]
    cell_starts = starts_of(np.diff(blocks.starts)[rows])
    return PatientBlocks(Body(**parts), cell_starts, blocks.sizes, weights)


def _joined_starts(arrays: Sequence[np.ndarray]) -> np.ndarray:
    before = np.cumsum([0] + [array[-1] for array in arrays])
    shifted = [array[1:] + shift for array, shift in zip(arrays, before, strict=False)]
    return np.concatenate([arrays[0][:1], *shifted])


def starts_of(lengths: np.ndarray) -> np.ndarray:
    """Where each of several runs begins, and the last one's end."""
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def empty_body(
    rows: np.ndarray,
    columns: np.ndarray,
    *,
    dense: np.ndarray,
    entries: np.ndarray,
    windows: np.ndarray | None = None,
    row_events: int = 0,
    column_events: int = 0,
) -> Body:
    """Room for blocks of the given sizes."""
    starts = [starts_of(lengths) for lengths in (rows, columns, dense, entries)]
    window_starts = starts_of(np.zeros_like(rows) if windows is None else windows)
    return Body(
        starts[0],
        np.empty(starts[0][-1], dtype=np.int32),
        starts[1],
        np.empty(starts[1][-1], dtype=np.int32),
        starts[2],
        np.zeros(starts[2][-1], dtype=np.uint8),
        starts[3],
        np.empty(starts[3][-1], dtype=np.uint16),
        np.empty(starts[3][-1], dtype=np.uint16),
        np.empty(starts[3][-1], dtype=np.int32),
        window_starts,
        np.zeros(window_starts[-1] + 1, dtype=np.int64),
        np.zeros(window_starts[-1] + 1, dtype=np.int64),
        np.empty(row_events, dtype=np.uint16),
        np.empty(column_events, dtype=np.uint16),
    )


def logged(blocks: PatientBlocks) -> PatientBlocks:
    """Say how many patients are kept in which form."""
    body = blocks.body
    dense, windows = (
        int((np.diff(starts) > 0).sum()) for starts in (body.dense_starts, body.window_starts)
    )
    entries = int(((np.diff(body.entry_starts) > 0) & (np.diff(body.window_starts) == 0)).sum())
    log.info(
        "%s patients with %s cells in %.1f MB (%.2f bytes a cell): %s as dense blocks, %s as the "
        "windows of their events, %s as single cells",
        f"{blocks.patients:,}",
        f"{blocks.nonzeros:,}",
        blocks.nbytes / 1e6,
        blocks.nbytes / max(blocks.nonzeros, 1),
        f"{dense:,}",
        f"{windows:,}",
        f"{entries:,}",
    )
    return blocks
