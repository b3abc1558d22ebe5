"""Loops only: products of patients kept as the windows of their events, plus single entries.

A cell counts the windows in which both codes occur, so X_i = Σ_w m_w d_wᵀ, and with
u_w = Σ B[m] and v_w = Σ C[d] over a window's own codes every product is a sum over events:
the patient's row is Σ_w u_w ∘ v_w, the first mode gets a ∘ v_w at each m, the second a ∘ u_w at
each d. Entries (row, column, value; sorted by row) add Σ_e value · B[m] ∘ C[d]: they are what a cap
takes off, or all there is of a patient whose block is too empty to be kept whole.

Every loop works on one strip of the components, ``r`` on, as wide as ``width`` says.
"""

from __future__ import annotations

import numpy as np

from tripheno.tensor.kernels import inner_step
from tripheno.tensor.strips import (
    add_into,
    add_strip,
    add_weighted,
    empty_strip,
    load_strip,
    multiplied,
    multiply_add,
    store_strip,
    sum_of_strips,
)


@inner_step
def _place(codes, begin, position, stride, r):  # type: ignore[no-untyped-def]
    """Where the strip of a patient's own code stands in a factor."""
    code = codes[np.uint64(begin) + np.uint64(position)]
    return np.uint64(code) * np.uint64(stride) + np.uint64(r)


@inner_step
def _sum_of(codes, begin, events, first, last, factor, stride, r, width):  # type: ignore[no-untyped-def]
    """Σ over a window's events of the factor's rows."""
    total, other = empty_strip(factor, width), empty_strip(factor, width)
    e, end = np.uint64(first), np.uint64(last)
    while e + np.uint64(1) < end:  # two sums, so that no addition waits for the one before
        total = add_strip(total, factor, _place(codes, begin, events[e], stride, r))
        other = add_strip(other, factor, _place(codes, begin, events[e + np.uint64(1)], stride, r))
        e += np.uint64(2)
    if e < end:
        total = add_strip(total, factor, _place(codes, begin, events[e], stride, r))
    return sum_of_strips(total, other)


@inner_step
def _fibre(body, entry, last, codes, begin, factor, stride, r, width):  # type: ignore[no-untyped-def]
    """Σ value · factor over the entries of one row, and where the next row begins."""
    row = body.entry_rows[entry]
    total = empty_strip(factor, width)
    while entry < last and body.entry_rows[entry] == row:
        at = _place(codes, begin, body.entry_columns[entry], stride, r)
        total = add_weighted(total, body.entry_values[entry], factor, at)
        entry += 1
    return total, entry


@inner_step
def row_of_events(body, i, first_factor, second_factor, stride, sums, row, r, width):  # type: ignore[no-untyped-def]
    """Row = Σ_w u_w ∘ v_w and the entries' part; every v_w is left in ``sums``."""
    rows, columns = body.row_starts[i], body.column_starts[i]
    total = empty_strip(first_factor, width)
    to = np.uint64(r)
    for w in range(body.window_starts[i], body.window_starts[i + 1]):
        v = _sum_of(
            body.column_codes, columns, body.event_columns, body.window_columns[w],
            body.window_columns[w + 1], second_factor, stride, r, width,
        )  # fmt: skip
        u = _sum_of(
            body.row_codes, rows, body.event_rows, body.window_rows[w], body.window_rows[w + 1],
            first_factor, stride, r, width,
        )  # fmt: skip
        store_strip(v, sums, to)
        to += np.uint64(stride)
        total = multiply_add(total, u, v)
    entry, last = body.entry_starts[i], body.entry_starts[i + 1]
    while entry < last:
        at = _place(body.row_codes, rows, body.entry_rows[entry], stride, r)
        t, entry = _fibre(
            body, entry, last, body.column_codes, columns, second_factor, stride, r, width
        )
        total = multiply_add(total, load_strip(first_factor, at, width), t)
    store_strip(total, row, np.uint64(r))


@inner_step
def add_events_to_rows(body, i, second_factor, stride, sums, scale, out, r, width):  # type: ignore[no-untyped-def]
    """out[m] += a ∘ v_w for each row event, with the v_w that `row_of_events` left."""
    rows, columns = body.row_starts[i], body.column_starts[i]
    a = load_strip(scale, np.uint64(r), width)
    at = np.uint64(r)
    for w in range(body.window_starts[i], body.window_starts[i + 1]):
        t = multiplied(a, load_strip(sums, at, width))
        at += np.uint64(stride)
        for e in range(np.uint64(body.window_rows[w]), np.uint64(body.window_rows[w + 1])):
            add_into(out, _place(body.row_codes, rows, body.event_rows[e], stride, r), t)
    entry, last = body.entry_starts[i], body.entry_starts[i + 1]
    while entry < last:
        to = _place(body.row_codes, rows, body.entry_rows[entry], stride, r)
        t, entry = _fibre(
            body, entry, last, body.column_codes, columns, second_factor, stride, r, width
        )
        add_into(out, to, multiplied(a, t))


@inner_step
def add_events_to_columns(body, i, first_factor, stride, scale, out, r, width):  # type: ignore[no-untyped-def]
    """out[d] += a ∘ u_w for each column event, and value · a ∘ B[m] for each entry."""
    rows, columns = body.row_starts[i], body.column_starts[i]
    a = load_strip(scale, np.uint64(r), width)
    for w in range(body.window_starts[i], body.window_starts[i + 1]):
        u = _sum_of(
            body.row_codes, rows, body.event_rows, body.window_rows[w], body.window_rows[w + 1],
            first_factor, stride, r, width,
        )  # fmt: skip
        t = multiplied(a, u)
        for e in range(np.uint64(body.window_columns[w]), np.uint64(body.window_columns[w + 1])):
            add_into(out, _place(body.column_codes, columns, body.event_columns[e], stride, r), t)
    for e in range(body.entry_starts[i], body.entry_starts[i + 1]):
        at = _place(body.row_codes, rows, body.entry_rows[e], stride, r)
        weighted = add_weighted(
            empty_strip(first_factor, width), body.entry_values[e], first_factor, at
        )
        to = _place(body.column_codes, columns, body.entry_columns[e], stride, r)
        add_into(out, to, multiplied(a, weighted))
