"""Loops only: products of patient blocks. `blocks` tells the storage, `vectors` the vectors.

Factors come flat, their rows ``stride`` numbers apart (the rank, filled with zeros to whole
vectors). A *panel* is four of a patient's rows; a count's byte stands at panel, column, row, so
that the four counts of a panel and a column are neighbours.

Components are worked on strip by strip. A strip's ``width`` is a tuple as long as it has vectors,
so that it is known when the loop is compiled; a row is a whole number of strips.
"""

from __future__ import annotations

import numpy as np

from tripheno.tensor.event_kernels import (
    add_events_to_columns,
    add_events_to_rows,
    row_of_events,
)
from tripheno.tensor.kernels import bare_loop, inner_step
from tripheno.tensor.nonnegative_kernels import nonnegative_row
from tripheno.tensor.strips import (
    add_into,
    add_weighted,
    empty_strip,
    load_strip,
    multiplied,
    multiply_add,
    store_strip,
)
from tripheno.tensor.vectors import (
    BYTES,
    ROWS,
    add_combination,
    add_products,
    empty_tile,
    load_tile,
    store_tile,
)


@inner_step
def gather(codes, begin, end, factor, stride, out, r, width):  # type: ignore[no-untyped-def]
    """The patient's own rows of a factor, side by side."""
    to = np.uint64(r)
    for c in range(begin, end):
        at = np.uint64(codes[c]) * np.uint64(stride) + np.uint64(r)
        store_strip(load_strip(factor, at, width), out, to)
        to += np.uint64(stride)


@inner_step
def gather_scaled(codes, begin, end, factor, scale, stride, out, r, width):  # type: ignore[no-untyped-def]
    """The patient's own rows of a factor, each times the patient's row; zeros to a whole panel."""
    a = load_strip(scale, np.uint64(r), width)
    to = np.uint64(r)
    for c in range(begin, end):
        at = np.uint64(codes[c]) * np.uint64(stride) + np.uint64(r)
        store_strip(multiplied(a, load_strip(factor, at, width)), out, to)
        to += np.uint64(stride)
    for _ in range((begin - end) % ROWS):
        store_strip(empty_strip(factor, width), out, to)
        to += np.uint64(stride)


@inner_step
def _panels_times(dense, begin, panels, columns, table, right, stride, out, r, width):  # type: ignore[no-untyped-def]
    """out[rows, r:] = block · right[:, r:]."""
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


@inner_step
def _times_panels(dense, begin, panels, columns, table, left, stride, out, r, width):  # type: ignore[no-untyped-def]
    """out[columns, r:] = blockᵀ · left[:, r:]."""
    place = np.uint64(r)
    for _ in range(columns):
        store_strip(empty_strip(left, width), out, place)
        place += np.uint64(stride)
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


@inner_step
def _fold(codes, begin, end, factor, product, stride, out, r, width):  # type: ignore[no-untyped-def]
    """Out = Σ over own rows of factor[code] ∘ product[row]: the patient's MTTKRP."""
    total = empty_strip(factor, width)
    at = np.uint64(r)
    for c in range(begin, end):
        row = np.uint64(codes[c]) * np.uint64(stride) + np.uint64(r)
        total = multiply_add(total, load_strip(factor, row, width), load_strip(product, at, width))
        at += np.uint64(stride)
    store_strip(total, out, np.uint64(r))


@inner_step
def _row_of_block(  # type: ignore[no-untyped-def]
    body, i, table, first_factor, second_factor, stride, scratch, r, width
):
    """A strip of the patient's row, Σ_m B[m] ∘ (X_i C)[m]; X_i C is left in scratch."""
    begin, end = body.column_starts[i], body.column_starts[i + 1]
    gather(body.column_codes, begin, end, second_factor, stride, scratch.columns, r, width)
    columns = end - begin
    begin, end = body.row_starts[i], body.row_starts[i + 1]
    panels = (end - begin + ROWS - 1) // ROWS
    at = body.dense_starts[i]
    _panels_times(
        body.dense, at, panels, columns, table, scratch.columns, stride, scratch.rows, r, width
    )
    _fold(body.row_codes, begin, end, first_factor, scratch.rows, stride, scratch.row, r, width)


@inner_step
def _add_block_to_rows(body, i, stride, scratch, out, r, width):  # type: ignore[no-untyped-def]
    """out[m] += a ∘ (X_i C)[m], with the X_i C that `_row_of_block` left."""
    a = load_strip(scratch.scale, np.uint64(r), width)
    at = np.uint64(r)
    for c in range(body.row_starts[i], body.row_starts[i + 1]):
        to = np.uint64(body.row_codes[c]) * np.uint64(stride) + np.uint64(r)
        add_into(out, to, multiplied(a, load_strip(scratch.rows, at, width)))
        at += np.uint64(stride)


@inner_step
def _add_block_to_columns(body, i, table, first_factor, stride, scratch, out, r, width):  # type: ignore[no-untyped-def]
    """out[d] += (X_iᵀ(a ∘ B))[d]."""
    begin, end = body.row_starts[i], body.row_starts[i + 1]
    panels = (end - begin + ROWS - 1) // ROWS
    gather_scaled(
        body.row_codes, begin, end, first_factor, scratch.scale, stride, scratch.rows, r, width
    )
    begin, end = body.column_starts[i], body.column_starts[i + 1]
    at, columns = body.dense_starts[i], end - begin
    _times_panels(
        body.dense, at, panels, columns, table, scratch.rows, stride, scratch.columns, r, width
    )
    place = np.uint64(r)
    for c in range(begin, end):
        to = np.uint64(body.column_codes[c]) * np.uint64(stride) + np.uint64(r)
        add_into(out, to, load_strip(scratch.columns, place, width))
        place += np.uint64(stride)


# ── whichever form the patient is kept in, strip by strip ─────────────────────────────────────


@inner_step
def _is_dense(body, i):  # type: ignore[no-untyped-def]
    return body.dense_starts[i] < body.dense_starts[i + 1]


@inner_step
def _strip_of_row(body, i, table, first_factor, second_factor, stride, scratch, r, width):  # type: ignore[no-untyped-def]
    if _is_dense(body, i):
        _row_of_block(body, i, table, first_factor, second_factor, stride, scratch, r, width)
    else:
        row_of_events(
            body, i, first_factor, second_factor, stride, scratch.sums, scratch.row, r, width
        )


@inner_step
def _row(body, i, table, first_factor, second_factor, stride, width, scratch):  # type: ignore[no-untyped-def]
    """The patient's MTTKRP, into ``scratch.row``."""
    for r in range(0, stride, BYTES // first_factor.itemsize * len(width)):
        _strip_of_row(body, i, table, first_factor, second_factor, stride, scratch, r, width)


@inner_step
def _add_strip_to_rows(body, i, second_factor, stride, scratch, out, r, width):  # type: ignore[no-untyped-def]
    if _is_dense(body, i):
        _add_block_to_rows(body, i, stride, scratch, out, r, width)
    else:
        add_events_to_rows(
            body, i, second_factor, stride, scratch.sums, scratch.scale, out, r, width
        )


@inner_step
def _add_to_rows(body, i, second_factor, stride, width, scratch, out):  # type: ignore[no-untyped-def]
    """What the patient adds to the first feature mode, a ∘ (X_i C), after `_row`."""
    for r in range(0, stride, BYTES // second_factor.itemsize * len(width)):
        _add_strip_to_rows(body, i, second_factor, stride, scratch, out, r, width)


@inner_step
def _add_strip_to_columns(body, i, table, first_factor, stride, scratch, out, r, width):  # type: ignore[no-untyped-def]
    if _is_dense(body, i):
        _add_block_to_columns(body, i, table, first_factor, stride, scratch, out, r, width)
    else:
        add_events_to_columns(body, i, first_factor, stride, scratch.scale, out, r, width)


# ── the solve ─────────────────────────────────────────────────────────────────────────────────


@inner_step
def _add_times(matrix, b, sign, rank, stride, out, r, width):  # type: ignore[no-untyped-def]
    """Add a strip of sign · matrix · b to ``out``, for a symmetric matrix."""
    total = load_strip(out, np.uint64(r), width)
    at = np.uint64(r)
    for k in range(rank):
        total = add_weighted(total, sign * b[k], matrix, at)
        at += np.uint64(stride)
    store_strip(total, out, np.uint64(r))


@inner_step
def _add_product(matrix, b, sign, rank, stride, out):  # type: ignore[no-untyped-def]
    for r in range(0, stride, BYTES // matrix.itemsize):
        _add_times(matrix, b, sign, rank, stride, out, r, (0,))


@inner_step
def _solve(gram, inverse, refine, b, rank, stride, rest, x):  # type: ignore[no-untyped-def]
    """X = G⁻¹b by the inverse, and once more for what that leaves over where asked.

    The second step makes up for what an inverse loses against substitution.
    """
    for r in range(stride):
        x[r], rest[r] = 0.0, b[r]
    _add_product(inverse, b, 1.0, rank, stride, x)
    if refine:
        _add_product(gram, x, -1.0, rank, stride, rest)
        _add_product(inverse, rest, 1.0, rank, stride, x)


# ── passes over the patients ──────────────────────────────────────────────────────────────────


@bare_loop
def patient_rows(  # type: ignore[no-untyped-def]
    body, table, first_factor, second_factor, stride, width, scratch, first, last, out
):
    """out[i] = the patient mode's MTTKRP, Σ_m B[m] ∘ (X_i C)[m]."""
    for i in range(first, last):
        _row(body, i, table, first_factor, second_factor, stride, width, scratch)
        for r in range(out.shape[1]):
            out[i, r] = scratch.row[r]


@bare_loop
def solve_and_add(  # type: ignore[no-untyped-def]
    body, table, first_factor, second_factor, stride, width, scratch,
    gram, wide_gram, inverse, refine, nonnegative, weights, first, last, patients, out,
):  # fmt: skip
    """One pass: each patient's row is computed, solved, and added to the first feature mode.

    X_i C is made once and used twice while it is in the first cache. ``patients`` holds the guess
    on entry and the solution on return; ``wide_gram`` and ``inverse``, filled to
    whole vectors, serve the solve without constraint. A patient adds ``weights[i]`` times the row.
    """
    rank = gram.shape[0]
    rhs, solution = scratch.rhs, scratch.solution
    for i in range(first, last):
        _row(body, i, table, first_factor, second_factor, stride, width, scratch)
        for r in range(stride):
            rhs[r] = scratch.row[r]
        if nonnegative:
            nonnegative_row(
                rhs, gram, patients[i], scratch.triangle, scratch.passive, solution, scratch.rest,
                scratch.inside,
            )  # fmt: skip
        else:
            _solve(wide_gram, inverse, refine, rhs, rank, stride, scratch.rest, solution)
            for r in range(rank):
                patients[i, r] = solution[r]
        for r in range(rank):
            scratch.scale[r] = weights[i] * patients[i, r]
        _add_to_rows(body, i, second_factor, stride, width, scratch, out)


@bare_loop
def add_rows(  # type: ignore[no-untyped-def]
    body, table, first_factor, second_factor, patients, stride, width, scratch, first, last, out
):
    """Out += what the patients add to the first feature mode, a_i ∘ (X_i C)."""
    for i in range(first, last):
        for r in range(patients.shape[1]):
            scratch.scale[r] = patients[i, r]
        _row(body, i, table, first_factor, second_factor, stride, width, scratch)
        _add_to_rows(body, i, second_factor, stride, width, scratch, out)


@bare_loop
def add_columns(  # type: ignore[no-untyped-def]
    body, table, first_factor, second_factor, patients, stride, width, scratch, first, last, out
):
    """Out += what the patients add to the second feature mode, X_iᵀ(a_i ∘ B)."""
    strip = BYTES // second_factor.itemsize * len(width)
    for i in range(first, last):
        for r in range(patients.shape[1]):
            scratch.scale[r] = patients[i, r]
        for r in range(0, stride, strip):
            _add_strip_to_columns(body, i, table, first_factor, stride, scratch, out, r, width)
