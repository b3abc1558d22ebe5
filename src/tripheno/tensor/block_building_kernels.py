"""Loops only: patient blocks made from cells or straight from windows, and written out as cells.

``place`` arrays are as long as a feature mode and hold, for the patient in hand, where a code
stands in the patient's own list; −1 elsewhere. They are cleaned code by code, not as a whole.

``events`` of windows are positions on the two axes stacked one below the other, sorted and distinct
within a window: those below ``boundary`` are rows, the others columns. A window that lacks one of
the two gives no cell and is passed over. A patient's counts are added up in a ``grid`` of own rows
× own columns before anything is written.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from tripheno.tensor.error_kernels import expand_windows
from tripheno.tensor.vectors import ROWS

LARGEST_GRID = 2**26


@njit(nogil=True, cache=True)
def costs(body):  # type: ignore[no-untyped-def]
    """About how many cycles two passes over each patient take."""
    patients = body.row_starts.shape[0] - 1
    out = np.empty(patients, np.int64)
    for i in range(patients):
        codes = body.row_starts[i + 1] - body.row_starts[i]
        codes += body.column_starts[i + 1] - body.column_starts[i]
        dense = body.dense_starts[i + 1] - body.dense_starts[i]
        entries = body.entry_starts[i + 1] - body.entry_starts[i]
        first, last = body.window_starts[i], body.window_starts[i + 1]
        events = body.window_rows[last] - body.window_rows[first]
        events += body.window_columns[last] - body.window_columns[first]
        out[i] = 1 + (200 + 20 * codes + 4 * dense + 12 * (entries + events)) // 16
    return out


@njit(nogil=True, cache=True)
def measure_cells(starts, indices, values, sizes, first, last, out):  # type: ignore[no-untyped-def]
    """out[i] = own rows, own columns and largest count of patient i."""
    seen_rows = np.full(sizes[0], -1, np.int64)
    seen_columns = np.full(sizes[1], -1, np.int64)
    for i in range(first, last):
        rows, columns, largest = 0, 0, np.int64(0)
        for cell in range(starts[i], starts[i + 1]):
            row, column = indices[cell, 0], indices[cell, 1]
            if seen_rows[row] != i:
                seen_rows[row] = i
                rows += 1
            if seen_columns[column] != i:
                seen_columns[column] = i
                columns += 1
            largest = max(largest, np.int64(values[cell]))
        out[i, 0], out[i, 1], out[i, 2] = rows, columns, largest


@njit(nogil=True, cache=True)
def own_codes(codes, begin, filled, place):  # type: ignore[no-untyped-def]
    """Sort codes[begin:filled] and note where each stands."""
    codes[begin:filled].sort()
    for k in range(begin, filled):
        place[codes[k]] = k - begin


@njit(nogil=True, cache=True)
def forget(codes, begin, end, place):  # type: ignore[no-untyped-def]
    """Clean the places of one patient's codes for the next."""
    for k in range(begin, end):
        place[codes[k]] = -1


@njit(nogil=True, cache=True)
def fill_from_cells(body, starts, indices, values, sizes, first, last):  # type: ignore[no-untyped-def]
    """Write each patient's code lists, and the counts as bytes or as entries."""
    row_place = np.full(sizes[0], -1, np.int64)
    column_place = np.full(sizes[1], -1, np.int64)
    for i in range(first, last):
        row_end, column_end = body.row_starts[i], body.column_starts[i]
        for cell in range(starts[i], starts[i + 1]):
            row, column = indices[cell, 0], indices[cell, 1]
            if row_place[row] < 0:
                row_place[row] = 0
                body.row_codes[row_end] = row
                row_end += 1
            if column_place[column] < 0:
                column_place[column] = 0
                body.column_codes[column_end] = column
                column_end += 1
        own_codes(body.row_codes, body.row_starts[i], row_end, row_place)
        own_codes(body.column_codes, body.column_starts[i], column_end, column_place)
        columns = column_end - body.column_starts[i]
        at = body.dense_starts[i]
        is_dense = at < body.dense_starts[i + 1]
        entry = body.entry_starts[i]
        for cell in range(starts[i], starts[i + 1]):
            row, column = row_place[indices[cell, 0]], column_place[indices[cell, 1]]
            if is_dense:
                body.dense[at + (row // ROWS * columns + column) * ROWS + row % ROWS] = values[cell]
            else:
                body.entry_rows[entry] = row
                body.entry_columns[entry] = column
                body.entry_values[entry] = values[cell]
                entry += 1
        forget(body.row_codes, body.row_starts[i], row_end, row_place)
        forget(body.column_codes, body.column_starts[i], column_end, column_place)


@njit(nogil=True, cache=True)
def copy_runs(source, starts, chosen, new_starts, out):  # type: ignore[no-untyped-def]
    """Copy the runs of the chosen patients one after the other."""
    for k in range(chosen.shape[0]):
        begin, to = starts[chosen[k]], new_starts[k]
        for e in range(starts[chosen[k] + 1] - begin):
            out[to + e] = source[begin + e]


@njit(nogil=True, cache=True)
def write_out(body, largest, starts, first, last, indices, values):  # type: ignore[no-untyped-def]
    """Every cell as row code, column code and count, sorted where the code lists are."""
    expanded = np.empty(largest[3], np.uint8)
    for i in range(first, last):
        to = starts[i]
        row_codes = body.row_codes[body.row_starts[i] : body.row_starts[i + 1]]
        column_codes = body.column_codes[body.column_starts[i] : body.column_starts[i + 1]]
        rows, columns = row_codes.shape[0], column_codes.shape[0]
        counts = body.dense[body.dense_starts[i] : body.dense_starts[i + 1]]
        if body.window_starts[i] < body.window_starts[i + 1]:
            expand_windows(body, i, rows, columns, expanded)
            counts = expanded
        elif counts.shape[0] == 0:
            for e in range(body.entry_starts[i], body.entry_starts[i + 1]):
                indices[to, 0] = row_codes[body.entry_rows[e]]
                indices[to, 1] = column_codes[body.entry_columns[e]]
                values[to] = body.entry_values[e]
                to += 1
            continue
        for row in range(rows):
            for column in range(columns):
                count = counts[(row // ROWS * columns + column) * ROWS + row % ROWS]
                if count > 0:
                    indices[to, 0], indices[to, 1] = row_codes[row], column_codes[column]
                    values[to] = count
                    to += 1


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
