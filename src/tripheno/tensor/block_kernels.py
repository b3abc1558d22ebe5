"""Loops only: products of patient blocks. `blocks` tells the storage, `vectors` the vectors.

Factors come flat, their rows ``stride`` numbers apart (the rank, filled with zeros to whole
vectors). A *panel* is four of a patient's rows; a count's byte stands at panel, column, row, so
that the four counts of a panel and a column are neighbours.

``tail`` is a tuple as long as the last column panel is wide, in vectors: it makes the width known
when the loop is compiled.
"""

from __future__ import annotations

import numpy as np

from tripheno.tensor.kernels import bare_loop, nonnegative_row
from tripheno.tensor.vectors import (
    LANES,
    ROWS,
    add_combination,
    add_products,
    empty_tile,
    fma,
    lane_sum,
    load,
    load_tile,
    look_up,
    spread,
    store,
    store_tile,
)

WIDEST = (0, 0, 0)


@bare_loop
def _gather(codes, begin, end, factor, stride, out):  # type: ignore[no-untyped-def]
    """The patient's own rows of a factor, side by side."""
    to = np.uint64(0)
    for c in range(begin, end):
        at = np.uint64(codes[c]) * np.uint64(stride)
        for v in range(np.uint64(0), np.uint64(stride), np.uint64(LANES)):
            store(load(factor, at + v), out, to + v)
        to += np.uint64(stride)


@bare_loop
def _gather_scaled(codes, begin, end, factor, scale, stride, out):  # type: ignore[no-untyped-def]
    """The patient's own rows of a factor, each times the patient's row; zeros to a whole panel."""
    zero = spread(0.0)
    to = np.uint64(0)
    for c in range(begin, end):
        at = np.uint64(codes[c]) * np.uint64(stride)
        for v in range(np.uint64(0), np.uint64(stride), np.uint64(LANES)):
            store(fma(load(factor, at + v), load(scale, v), zero), out, to + v)
        to += np.uint64(stride)
    for _ in range((begin - end) % ROWS):
        for v in range(np.uint64(0), np.uint64(stride), np.uint64(LANES)):
            store(zero, out, to + v)
        to += np.uint64(stride)


@bare_loop
def _panels_times(dense, begin, panels, columns, table, right, r, stride, out, width):  # type: ignore[no-untyped-def]
    """out[rows, r:] = block · right[:, r:], for as many numbers as ``width`` holds."""
    at = np.uint64(begin)
    to = np.uint64(r)
    for _ in range(panels):
        tile = empty_tile(right, width)
        place = np.uint64(r)
        for _ in range(columns):
            tile = add_products(tile, table, dense, at, right, place)
            at += np.uint64(ROWS)
            place += np.uint64(stride)
        store_tile(tile, out, to, np.uint64(stride))
        to += np.uint64(ROWS * stride)


@bare_loop
def _times_panels(dense, begin, panels, columns, table, left, r, stride, out, width):  # type: ignore[no-untyped-def]
    """out[columns, r:] += blockᵀ · left[:, r:], for as many numbers as ``width`` holds."""
    at = np.uint64(begin)
    row = np.uint64(r)
    for _ in range(panels):
        tile = load_tile(left, row, np.uint64(stride), width)
        place = np.uint64(r)
        for _ in range(columns):
            add_combination(out, place, table, dense, at, tile)
            at += np.uint64(ROWS)
            place += np.uint64(stride)
        row += np.uint64(ROWS * stride)


@bare_loop
def _add_row(rows, at, weight, out, to, stride):  # type: ignore[no-untyped-def]
    """out[to:] += weight · rows[at:]."""
    times = spread(weight)
    for v in range(np.uint64(0), np.uint64(stride), np.uint64(LANES)):
        store(fma(times, load(rows, at + v), load(out, to + v)), out, to + v)


@bare_loop
def _block_times(body, i, table, right, stride, tail, sums, out):  # type: ignore[no-untyped-def]
    """Out = X_i · right, a row per own code of the first mode, whatever form X_i is kept in."""
    rows = body.row_starts[i + 1] - body.row_starts[i]
    columns = body.column_starts[i + 1] - body.column_starts[i]
    panels = (rows + ROWS - 1) // ROWS
    last = stride - LANES * len(tail)
    if body.dense_starts[i] < body.dense_starts[i + 1]:
        begin = body.dense_starts[i]
        for r in range(0, last, LANES * 3):
            _panels_times(body.dense, begin, panels, columns, table, right, r, stride, out, WIDEST)
        _panels_times(body.dense, begin, panels, columns, table, right, last, stride, out, tail)
        return
    out[: rows * stride] = 0.0
    step = np.uint64(stride)
    # Σ_w m_w (Σ_{c in w} right_c)ᵀ: one sum per window, added to each of its rows.
    for w in range(body.window_starts[i], body.window_starts[i + 1]):
        sums[:stride] = 0.0
        for e in range(body.window_columns[w], body.window_columns[w + 1]):
            _add_row(
                right, np.uint64(body.event_columns[e]) * step, 1.0, sums, np.uint64(0), stride
            )
        for e in range(body.window_rows[w], body.window_rows[w + 1]):
            _add_row(sums, np.uint64(0), 1.0, out, np.uint64(body.event_rows[e]) * step, stride)
    for e in range(body.entry_starts[i], body.entry_starts[i + 1]):
        at = np.uint64(body.entry_columns[e]) * step
        to = np.uint64(body.entry_rows[e]) * step
        _add_row(right, at, np.float64(body.entry_values[e]), out, to, stride)


@bare_loop
def _times_block(body, i, table, left, stride, tail, sums, out):  # type: ignore[no-untyped-def]
    """Out = X_iᵀ · left, a row per own code of the second mode."""
    rows = body.row_starts[i + 1] - body.row_starts[i]
    columns = body.column_starts[i + 1] - body.column_starts[i]
    panels = (rows + ROWS - 1) // ROWS
    last = stride - LANES * len(tail)
    out[: columns * stride] = 0.0
    if body.dense_starts[i] < body.dense_starts[i + 1]:
        begin = body.dense_starts[i]
        for r in range(0, last, LANES * 3):
            _times_panels(body.dense, begin, panels, columns, table, left, r, stride, out, WIDEST)
        _times_panels(body.dense, begin, panels, columns, table, left, last, stride, out, tail)
        return
    step = np.uint64(stride)
    for w in range(body.window_starts[i], body.window_starts[i + 1]):
        sums[:stride] = 0.0
        for e in range(body.window_rows[w], body.window_rows[w + 1]):
            _add_row(left, np.uint64(body.event_rows[e]) * step, 1.0, sums, np.uint64(0), stride)
        for e in range(body.window_columns[w], body.window_columns[w + 1]):
            _add_row(sums, np.uint64(0), 1.0, out, np.uint64(body.event_columns[e]) * step, stride)
    for e in range(body.entry_starts[i], body.entry_starts[i + 1]):
        at = np.uint64(body.entry_rows[e]) * step
        to = np.uint64(body.entry_columns[e]) * step
        _add_row(left, at, np.float64(body.entry_values[e]), out, to, stride)


@bare_loop
def _patient_row(codes, begin, end, factor, product, stride, out):  # type: ignore[no-untyped-def]
    """Out = Σ over own rows of factor[code] ∘ product[row]: the patient's MTTKRP."""
    out[:stride] = 0.0
    at = np.uint64(0)
    for c in range(begin, end):
        row = np.uint64(codes[c]) * np.uint64(stride)
        for v in range(np.uint64(0), np.uint64(stride), np.uint64(LANES)):
            store(fma(load(factor, row + v), load(product, at + v), load(out, v)), out, v)
        at += np.uint64(stride)


@bare_loop
def _add_scaled(codes, begin, end, scale, product, stride, out):  # type: ignore[no-untyped-def]
    """out[code] += scale ∘ product[row]: what a patient adds to a feature mode."""
    at = np.uint64(0)
    for c in range(begin, end):
        to = np.uint64(codes[c]) * np.uint64(stride)
        for v in range(np.uint64(0), np.uint64(stride), np.uint64(LANES)):
            store(fma(load(scale, v), load(product, at + v), load(out, to + v)), out, to + v)
        at += np.uint64(stride)


@bare_loop
def _add_times(matrix, b, sign, rank, stride, out):  # type: ignore[no-untyped-def]
    """Add sign · matrix · b to ``out``, for a symmetric matrix."""
    at = np.uint64(0)
    for r in range(rank):
        _add_row(matrix, at, sign * b[r], out, np.uint64(0), stride)
        at += np.uint64(stride)


@bare_loop
def _solve(gram, inverse, b, rank, stride, rest, x):  # type: ignore[no-untyped-def]
    """X = G⁻¹b by the inverse, and once more for what that leaves over: whole vectors all along.

    The second step makes up for what an inverse loses against substitution.
    """
    x[:stride] = 0.0
    _add_times(inverse, b, 1.0, rank, stride, x)
    for r in range(stride):
        rest[r] = b[r]
    _add_times(gram, x, -1.0, rank, stride, rest)
    _add_times(inverse, rest, 1.0, rank, stride, x)


@bare_loop
def patient_rows(body, table, first_factor, second_factor, stride, tail, scratch, first, last, out):  # type: ignore[no-untyped-def]
    """out[i] = the patient mode's MTTKRP, Σ_m B[m] ∘ (X_i C)[m]."""
    rank = out.shape[1]
    product, own, sums, row = scratch.rows, scratch.columns, scratch.sums, scratch.row
    for i in range(first, last):
        begin, end = body.row_starts[i], body.row_starts[i + 1]
        _gather(
            body.column_codes, body.column_starts[i], body.column_starts[i + 1],
            second_factor, stride, own,
        )  # fmt: skip
        _block_times(body, i, table, own, stride, tail, sums, product)
        _patient_row(body.row_codes, begin, end, first_factor, product, stride, row)
        for r in range(rank):
            out[i, r] = row[r]


@bare_loop
def solve_and_add(  # type: ignore[no-untyped-def]
    body, table, first_factor, second_factor, stride, tail, scratch,
    gram, wide_gram, inverse, nonnegative, first, last, patients, out,
):  # fmt: skip
    """One pass: each patient's row is computed, solved, and added to the first feature mode.

    X_i C is made once and used twice while it is in the first cache. ``patients`` holds the guess
    on entry and the solution on return; ``wide_gram`` and ``inverse``, filled to
    whole vectors, serve the solve without constraint.
    """
    rank = gram.shape[0]
    product, own, sums, row = scratch.rows, scratch.columns, scratch.sums, scratch.row
    scale, triangle, solution = scratch.scale, scratch.triangle, scratch.solution
    passive, inside = scratch.passive, scratch.inside
    for i in range(first, last):
        begin, end = body.row_starts[i], body.row_starts[i + 1]
        _gather(
            body.column_codes, body.column_starts[i], body.column_starts[i + 1],
            second_factor, stride, own,
        )  # fmt: skip
        _block_times(body, i, table, own, stride, tail, sums, product)
        _patient_row(body.row_codes, begin, end, first_factor, product, stride, row)
        if nonnegative:
            nonnegative_row(row, gram, patients[i], triangle, passive, solution, inside)
        else:
            _solve(wide_gram, inverse, row, rank, stride, sums, scale)
            for r in range(rank):
                patients[i, r] = scale[r]
        for r in range(rank):
            scale[r] = patients[i, r]
        _add_scaled(body.row_codes, begin, end, scale, product, stride, out)


@bare_loop
def add_rows(  # type: ignore[no-untyped-def]
    body, table, second_factor, patients, stride, tail, scratch, first, last, out
):
    """Out += what the patients add to the first feature mode, a_i ∘ (X_i C)."""
    rank = patients.shape[1]
    product, own, sums, scale = scratch.rows, scratch.columns, scratch.sums, scratch.scale
    for i in range(first, last):
        _gather(
            body.column_codes, body.column_starts[i], body.column_starts[i + 1],
            second_factor, stride, own,
        )  # fmt: skip
        _block_times(body, i, table, own, stride, tail, sums, product)
        for r in range(rank):
            scale[r] = patients[i, r]
        begin, end = body.row_starts[i], body.row_starts[i + 1]
        _add_scaled(body.row_codes, begin, end, scale, product, stride, out)


@bare_loop
def add_columns(  # type: ignore[no-untyped-def]
    body, table, first_factor, patients, stride, tail, scratch, first, last, out
):
    """Out += what the patients add to the second feature mode, X_iᵀ(a_i ∘ B)."""
    rank = patients.shape[1]
    own, product, sums, scale = scratch.rows, scratch.columns, scratch.sums, scratch.scale
    for i in range(first, last):
        for r in range(rank):
            scale[r] = patients[i, r]
        begin, end = body.row_starts[i], body.row_starts[i + 1]
        _gather_scaled(body.row_codes, begin, end, first_factor, scale, stride, own)
        _times_block(body, i, table, own, stride, tail, sums, product)
        begin, end = body.column_starts[i], body.column_starts[i + 1]
        _add_scaled(body.column_codes, begin, end, scratch.ones, product, stride, out)


@bare_loop
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


@bare_loop
def _panel_errors(dense, at, panels, columns, tables, left, right, rank, stride, turned, out):  # type: ignore[no-untyped-def]
    """Add Σ (filled · model − count)² and Σ model · count of a block; four rows make a vector."""
    counts, filled = tables
    squared, inner = spread(0.0), spread(0.0)
    minus = spread(-1.0)
    at = np.uint64(at)
    for p in range(panels):
        for row in range(ROWS):
            for r in range(rank):
                turned[r * ROWS + row] = left[(p * ROWS + row) * stride + r]
        place = np.uint64(0)
        for _ in range(columns):
            model = spread(0.0)
            for r in range(np.uint64(0), np.uint64(rank)):
                row_r = load(turned, r * np.uint64(ROWS))
                model = fma(row_r, spread(right[place + r]), model)
            count = look_up(counts, dense, at)
            error = fma(look_up(filled, dense, at), model, fma(minus, count, spread(0.0)))
            squared = fma(error, error, squared)
            inner = fma(model, count, inner)
            at += np.uint64(ROWS)
            place += np.uint64(stride)
    out[0] += lane_sum(squared)
    out[1] += lane_sum(inner)


@bare_loop
def errors_at_cells(  # type: ignore[no-untyped-def]
    body, tables, first_factor, second_factor, patients, stride, scratch, first, last, out
):
    """Out += (Σ (model − count)², Σ model · count) over the cells that hold a count."""
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
        _gather_scaled(body.row_codes, begin, end, first_factor, scale, stride, left)
        begin, end = body.column_starts[i], body.column_starts[i + 1]
        _gather(body.column_codes, begin, end, second_factor, stride, right)
        at = body.dense_starts[i]
        if at < body.dense_starts[i + 1]:
            _panel_errors(
                body.dense, at, panels, columns, tables, left, right, rank, stride, turned, out
            )
        elif body.window_starts[i] < body.window_starts[i + 1]:
            expand_windows(body, i, rows, columns, expanded)
            _panel_errors(
                expanded, 0, panels, columns, tables, left, right, rank, stride, turned, out
            )
        else:
            for e in range(body.entry_starts[i], body.entry_starts[i + 1]):
                model = 0.0
                a = np.int64(body.entry_rows[e]) * stride
                b = np.int64(body.entry_columns[e]) * stride
                for r in range(rank):
                    model += left[a + r] * right[b + r]
                count = np.float64(body.entry_values[e])
                out[0] += (model - count) ** 2
                out[1] += model * count
