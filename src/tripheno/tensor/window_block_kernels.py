"""Loops only: patient blocks straight from windows of events, so that cells need never exist.

``events`` are positions on the two axes stacked one below the other, sorted and distinct within a
window: those below ``boundary`` are rows, the others columns. A window that lacks one of the two
gives no cell and is passed over. A patient's counts are added up in a ``grid`` of own rows × own
columns before anything is written.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from tripheno.tensor.block_building_kernels import forget, own_codes
from tripheno.tensor.vectors import ROWS

LARGEST_GRID = 2**26


@njit(nogil=True, cache=True)
def _split(events, begin, end, boundary):  # type: ignore[no-untyped-def]
    """Where a window's columns begin."""
    middle = begin
    while middle < end and events[middle] < boundary:
        middle += 1
    return middle


@njit(nogil=True, cache=True)
def _collect(events, windows, first, last, boundary, rows, columns, places):  # type: ignore[no-untyped-def]
    """The patient's own codes, sorted; how many of each, of windows that count, and of events."""
    row_place, column_place = places
    n_rows = n_columns = n_windows = row_events = column_events = 0
    for w in range(first, last):
        begin, end = windows[w], windows[w + 1]
        middle = _split(events, begin, end, boundary)
        if not begin < middle < end:
            continue
        n_windows += 1
        row_events += middle - begin
        column_events += end - middle
        for e in range(begin, middle):
            if row_place[events[e]] < 0:
                row_place[events[e]] = 0
                rows[n_rows] = events[e]
                n_rows += 1
        for e in range(middle, end):
            code = events[e] - boundary
            if column_place[code] < 0:
                column_place[code] = 0
                columns[n_columns] = code
                n_columns += 1
    own_codes(rows, 0, n_rows, row_place)
    own_codes(columns, 0, n_columns, column_place)
    return n_rows, n_columns, n_windows, row_events, column_events


@njit(nogil=True, cache=True)
def _count(events, windows, first, last, boundary, n_columns, places, near, grid):  # type: ignore[no-untyped-def]
    """grid[row, column] = number of windows in which both occur."""
    row_place, column_place = places
    for w in range(first, last):
        begin, end = windows[w], windows[w + 1]
        middle = _split(events, begin, end, boundary)
        width = end - middle
        for e in range(width):
            near[e] = column_place[events[middle + e] - boundary]
        for e in range(begin, middle):
            line = row_place[events[e]] * n_columns
            for f in range(width):
                grid[line + near[f]] += 1


@njit(nogil=True, cache=True)
def measure_windows(events, windows, patient_windows, boundary, sizes, cap, first, last, out):  # type: ignore[no-untyped-def]
    """Rows, columns, windows, row and column events, cells, cells above the cap, largest count.

    Returns whether every patient's grid was small enough to count.
    """
    places = (np.full(sizes[0], -1, np.int64), np.full(sizes[1], -1, np.int64))
    rows, columns = np.empty(sizes[0], np.int32), np.empty(sizes[1], np.int32)
    near, grid = np.empty(sizes[1], np.int64), np.empty(0, np.int64)
    for i in range(first, last):
        a, b = patient_windows[i], patient_windows[i + 1]
        found = _collect(events, windows, a, b, boundary, rows, columns, places)
        n_rows, n_columns = found[0], found[1]
        if n_rows * n_columns > LARGEST_GRID:
            return False
        if n_rows * n_columns > grid.shape[0]:
            grid = np.empty(2 * n_rows * n_columns, np.int64)
        grid[: n_rows * n_columns] = 0
        _count(events, windows, a, b, boundary, n_columns, places, near, grid)
        cells = above = largest = 0
        for g in range(n_rows * n_columns):
            count = grid[g]
            above += count > cap
            count = min(count, cap)
            cells += count > 0
            largest = max(largest, count)
        out[i, 0], out[i, 1], out[i, 2], out[i, 3], out[i, 4] = found
        out[i, 5], out[i, 6], out[i, 7] = cells, above, largest
        forget(rows, 0, n_rows, places[0])
        forget(columns, 0, n_columns, places[1])
    return True


@njit(nogil=True, cache=True)
def fill_from_windows(  # type: ignore[no-untyped-def]
    body, events, windows, patient_windows, boundary, sizes, cap, event_starts, first, last
):
    """Write each patient's code lists and the counts in the form that there is room for.

    ``event_starts`` says where a patient's row and column events go.
    """
    places = (np.full(sizes[0], -1, np.int64), np.full(sizes[1], -1, np.int64))
    rows, columns = np.empty(sizes[0], np.int32), np.empty(sizes[1], np.int32)
    near, grid = np.empty(sizes[1], np.int64), np.empty(0, np.int64)
    for i in range(first, last):
        a, b = patient_windows[i], patient_windows[i + 1]
        found = _collect(events, windows, a, b, boundary, rows, columns, places)
        n_rows, n_columns = found[0], found[1]
        body.row_codes[body.row_starts[i] : body.row_starts[i + 1]] = rows[:n_rows]
        body.column_codes[body.column_starts[i] : body.column_starts[i + 1]] = columns[:n_columns]
        kept = body.window_starts[i]
        as_windows = kept < body.window_starts[i + 1]
        if as_windows:
            row_event, column_event = event_starts[0, i], event_starts[1, i]
            for w in range(a, b):
                begin, end = windows[w], windows[w + 1]
                middle = _split(events, begin, end, boundary)
                if not begin < middle < end:
                    continue
                body.window_rows[kept], body.window_columns[kept] = row_event, column_event
                kept += 1
                for e in range(begin, middle):
                    body.event_rows[row_event] = places[0][events[e]]
                    row_event += 1
                for e in range(middle, end):
                    body.event_columns[column_event] = places[1][events[e] - boundary]
                    column_event += 1
        at, entry = body.dense_starts[i], body.entry_starts[i]
        is_dense = at < body.dense_starts[i + 1]
        if is_dense or entry < body.entry_starts[i + 1]:
            if n_rows * n_columns > grid.shape[0]:
                grid = np.empty(2 * n_rows * n_columns, np.int64)
            grid[: n_rows * n_columns] = 0
            _count(events, windows, a, b, boundary, n_columns, places, near, grid)
            for row in range(n_rows):
                for column in range(n_columns):
                    count = grid[row * n_columns + column]
                    capped = min(count, cap)
                    if is_dense:
                        panel = at + (row // ROWS * n_columns + column) * ROWS
                        body.dense[panel + row % ROWS] = capped
                        continue
                    value = capped - count if as_windows else capped
                    if value != 0:
                        body.entry_rows[entry], body.entry_columns[entry] = row, column
                        body.entry_values[entry] = value
                        entry += 1
        forget(rows, 0, n_rows, places[0])
        forget(columns, 0, n_columns, places[1])
