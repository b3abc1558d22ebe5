"""Loops only: how far the model is from the counts, cell by cell, always in float64."""

from __future__ import annotations

import numpy as np

from tripheno.tensor.block_kernels import gather, gather_scaled
from tripheno.tensor.kernels import bare_loop, inner_step
from tripheno.tensor.vectors import (
    BYTES,
    ROWS,
    fma,
    four_counts,
    lane_sum,
    load,
    spread,
    where_positive,
)

LANES = BYTES // 8


@inner_step
def expand_windows(body, i, rows, columns, counts):  # type: ignore[no-untyped-def]
    """The counts of a patient kept as windows, as the bytes of a dense block."""
    counts[: (rows + ROWS - 1) // ROWS * ROWS * columns] = 0
    for w in range(body.window_starts[i], body.window_starts[i + 1]):
        for e in range(body.window_rows[w], body.window_rows[w + 1]):
            row = np.uint64(body.event_rows[e])
            place = row // np.uint64(ROWS) * np.uint64(ROWS * columns) + row % np.uint64(ROWS)
            for f in range(body.window_columns[w], body.window_columns[w + 1]):
                counts[place + np.uint64(body.event_columns[f]) * np.uint64(ROWS)] += 1
    for e in range(body.entry_starts[i], body.entry_starts[i + 1]):
        row = np.uint64(body.entry_rows[e])
        place = row // np.uint64(ROWS) * np.uint64(ROWS * columns) + row % np.uint64(ROWS)
        counts[place + np.uint64(body.entry_columns[e]) * np.uint64(ROWS)] += body.entry_values[e]


@inner_step
def _four_components(turned, right, r, place, one, other):  # type: ignore[no-untyped-def]
    """Add four components of the model of a panel and a column, to two sums in turn."""
    for _ in range(2):
        one = fma(load(turned, r * np.uint64(ROWS)), spread(right[place + r]), one)
        r += np.uint64(1)
        other = fma(load(turned, r * np.uint64(ROWS)), spread(right[place + r]), other)
        r += np.uint64(1)
    return one, other


@inner_step
def _panel_errors(dense, at, panels, columns, left, right, stride, turned, weight, out):  # type: ignore[no-untyped-def]
    """Add Σ (filled · model − count)², Σ model · count of a block; four rows make a vector."""
    squared, inner = spread(0.0), spread(0.0)
    unit, minus = spread(1.0), spread(-1.0)
    at, width = np.uint64(at), np.uint64(stride)
    for p in range(panels):
        for row in range(ROWS):
            for r in range(stride):
                turned[r * ROWS + row] = left[(p * ROWS + row) * stride + r]
        place = np.uint64(0)
        for _ in range(columns):
            model, other = spread(0.0), spread(0.0)
            for r in range(np.uint64(0), width, np.uint64(LANES)):
                model, other = _four_components(turned, right, r, place, model, other)
            model = fma(other, unit, model)
            count = four_counts(dense, at)
            error = fma(minus, count, where_positive(count, model))
            squared = fma(error, error, squared)
            inner = fma(model, count, inner)
            at += np.uint64(ROWS)
            place += width
    out[0] += weight * lane_sum(squared)
    out[1] += weight * lane_sum(inner)


@inner_step
def _entry_errors(body, i, left, right, stride, weight, out):  # type: ignore[no-untyped-def]
    """The same for a patient whose cells are kept one by one."""
    for e in range(body.entry_starts[i], body.entry_starts[i + 1]):
        model = 0.0
        a = np.int64(body.entry_rows[e]) * stride
        b = np.int64(body.entry_columns[e]) * stride
        for r in range(stride):
            model += left[a + r] * right[b + r]
        count = np.float64(body.entry_values[e])
        out[0] += weight * (model - count) ** 2
        out[1] += weight * model * count


@bare_loop
def errors_at_cells(  # type: ignore[no-untyped-def]
    body, first_factor, second_factor, patients, weights, stride, scratch, first, last, out
):
    """Out += (Σ w_i (model − count)², Σ w_i · model · count) over the cells that hold a count."""
    rank = patients.shape[1]
    left, right, scale = scratch.rows, scratch.columns, scratch.scale
    turned, expanded = scratch.turned, scratch.expanded
    for i in range(first, last):
        for r in range(rank):
            scale[r] = patients[i, r]
        rows = body.row_starts[i + 1] - body.row_starts[i]
        columns = body.column_starts[i + 1] - body.column_starts[i]
        panels = (rows + ROWS - 1) // ROWS
        begin, end = body.row_starts[i], body.row_starts[i + 1]
        for r in range(0, stride, LANES):
            gather_scaled(body.row_codes, begin, end, first_factor, scale, stride, left, r, (0,))
        begin, end = body.column_starts[i], body.column_starts[i + 1]
        for r in range(0, stride, LANES):
            gather(body.column_codes, begin, end, second_factor, stride, right, r, (0,))
        counts, at = body.dense, body.dense_starts[i]
        if body.window_starts[i] < body.window_starts[i + 1]:
            expand_windows(body, i, rows, columns, expanded)
            counts, at = expanded, 0
        elif at == body.dense_starts[i + 1]:
            panels = 0  # there are entries only
            _entry_errors(body, i, left, right, stride, weights[i], out)
        _panel_errors(counts, at, panels, columns, left, right, stride, turned, weights[i], out)
