"""Loops of the Poisson loss over cells; the plain twin stands in `reference`. See `kernels`.

With π a cell's product of the other modes and m = πᵀa its mean, a row's loss Σ sᵣaᵣ − Σ x log m has
the slopes Σ (x/m)π and the curvature Σ (x/m²)ππᵀ. A triangle is kept row by row.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from tripheno.tensor.nonnegative_kernels import called, nonnegative_row

LEAST = 1e-300  # a mean below this would divide by nothing
FLOOR = 1e-12  # of a patient's largest membership: what is zero could never explain a count
RIDGE = 1e-10  # of the curvature: sums are whole numbers on a scale, so it may miss a little
SETTLED = 1e-14  # of a patient's counts: a step that promises less was the last


@njit(nogil=True, cache=True)
def poisson_sums(  # type: ignore[no-untyped-def]
    starts, indices, values, stacked, offsets, patients, weights, target, first, last, slopes,
    curves, out,
):  # fmt: skip
    """Add Σ w(x/m)π and Σ w(x/m²)ππᵀ per code of the target mode; out[0] += Σ w(x log(x/m) − x)."""
    rank, modes = stacked.shape[1], indices.shape[1]
    product = np.empty(rank)
    bent = np.empty(rank)
    for i in range(first, last):
        if weights[i] == 0.0:
            continue
        for cell in range(starts[i], starts[i + 1]):
            row = indices[cell, target]
            own = offsets[target] + row
            for r in range(rank):
                product[r] = patients[i, r]
            for n in range(modes):
                if n != target:
                    at = offsets[n] + indices[cell, n]
                    for r in range(rank):
                        product[r] *= stacked[at, r]
            mean = LEAST
            for r in range(rank):
                mean += product[r] * stacked[own, r]
            count = float(values[cell])
            share = weights[i] * count / mean
            out[0] += weights[i] * count * (np.log(count / mean) - 1.0)
            for r in range(rank):
                slopes[row, r] += share * product[r]
                bent[r] = share / mean * product[r]
            place = 0
            for r in range(rank):
                by = bent[r]
                for s in range(r + 1):
                    curves[row, place + s] += by * product[s]
                place += r + 1


@called
def newton_target(  # type: ignore[no-untyped-def]
    slopes, curve, sums, row, out, triangle, passive, solution, steep, inside, linear
):
    """Where the parabola of a row a is least: z = argmin_{z≥0} ½zᵀHz − zᵀ(Ha − ∇)."""
    rank = len(row)
    trace = 0.0
    for r in range(rank):
        trace += curve[r, r]
    if trace <= 0.0:  # no count in this row: the loss is its sum, least at zero
        for r in range(rank):
            out[r] = 0.0
        return
    for r in range(rank):
        curve[r, r] += RIDGE * trace
    for r in range(rank):
        linear[r] = slopes[r] - sums[r]
        for s in range(rank):
            linear[r] += curve[r, s] * row[s]
        out[r] = row[r]
    nonnegative_row(linear, curve, out, triangle, passive, solution, steep, inside)


@called
def damped(slopes, curve, sums, row, out, shrinks):  # type: ignore[no-untyped-def]
    """As far towards the target as lowers the loss; gives g, twice what the step promises at most.

    With d = z − a. Where a mean grows, −log is below its parabola; none falls by a larger share
    than ρ = ``shrinks`` ≤ 1. So a + td with t = g/(dᵀHd + ρg), g = −∇ᵀd, lowers the loss whatever
    the weights are, and nobody asks for its value.
    """
    rank = len(row)
    promised = 0.0
    bend = 0.0
    for r in range(rank):
        move = out[r] - row[r]
        promised += (slopes[r] - sums[r]) * move
        for s in range(rank):
            bend += move * curve[r, s] * (out[s] - row[s])
    if promised <= 0.0:
        for r in range(rank):
            out[r] = row[r]
        return 0.0
    step = min(1.0, promised / (bend + shrinks * promised))
    for r in range(rank):
        out[r] = row[r] + step * (out[r] - row[r])
    return promised


@njit(nogil=True, cache=True)
def newton_rows(slopes, curves, sums, factor, out):  # type: ignore[no-untyped-def]
    """Each row of a feature mode takes one damped Newton step; every row has sums of its own."""
    rows, rank = factor.shape
    curve = np.empty((rank, rank))
    triangle = np.empty((rank, rank))
    passive = np.empty(rank, np.int64)
    solution, steep, linear = np.empty(rank), np.empty(rank), np.empty(rank)
    inside = np.zeros(rank, np.bool_)
    for i in range(rows):
        place = 0
        for r in range(rank):
            for s in range(r + 1):
                curve[r, s] = curves[i, place + s]
                curve[s, r] = curves[i, place + s]
            place += r + 1
        newton_target(
            slopes[i], curve, sums[i], factor[i], out[i],
            triangle, passive, solution, steep, inside, linear,
        )  # fmt: skip
        shrinks = 0.0  # no mean falls by a larger share than the entry that falls most
        for r in range(rank):
            if out[i, r] < factor[i, r]:
                shrinks = max(shrinks, 1.0 - out[i, r] / factor[i, r])
        damped(slopes[i], curve, sums[i], factor[i], out[i], shrinks)


@njit(nogil=True, cache=True)
def fit_rows(  # type: ignore[no-untyped-def]
    starts, indices, values, stacked, offsets, sums, first, last, most, rows
):
    """Patients' rows, from where they stand to their best: Newton steps while a step promises much.

    A patient's products π are made once and stay at hand for all steps, so that the share by which
    a mean falls is known: an entry that explains little goes to zero at once, not by halves.
    """
    rank, modes = stacked.shape[1], indices.shape[1]
    longest = 0
    for i in range(first, last):
        longest = max(longest, starts[i + 1] - starts[i])
    products, means = np.empty((longest, rank)), np.empty(longest)
    curve = np.empty((rank, rank))
    triangle = np.empty((rank, rank))
    passive = np.empty(rank, np.int64)
    solution, steep, linear = np.empty(rank), np.empty(rank), np.empty(rank)
    slopes, after = np.empty(rank), np.empty(rank)
    inside = np.zeros(rank, np.bool_)
    for i in range(first, last):
        begin, cells = starts[i], starts[i + 1] - starts[i]
        counts = 0.0
        for c in range(cells):
            counts += values[begin + c]
            for r in range(rank):
                products[c, r] = 1.0
            for n in range(modes):
                at = offsets[n] + indices[begin + c, n]
                for r in range(rank):
                    products[c, r] *= stacked[at, r]
        if cells == 0:
            rows[i, :] = 0.0
            continue
        for _ in range(most):
            slopes[:] = 0.0
            curve[:, :] = 0.0
            for c in range(cells):
                mean = LEAST
                for r in range(rank):
                    mean += products[c, r] * rows[i, r]
                means[c] = mean
                share = values[begin + c] / mean
                for r in range(rank):
                    slopes[r] += share * products[c, r]
                share /= mean
                for r in range(rank):
                    by = share * products[c, r]
                    for s in range(r + 1):
                        curve[r, s] += by * products[c, s]
            for r in range(rank):
                for s in range(r):
                    curve[s, r] = curve[r, s]
            newton_target(
                slopes, curve, sums, rows[i], after,
                triangle, passive, solution, steep, inside, linear,
            )  # fmt: skip
            largest = 0.0
            for r in range(rank):
                largest = max(largest, rows[i, r])
            for r in range(rank):  # what is as good as zero stays, and promises nothing
                if after[r] < rows[i, r] <= 2.0 * FLOOR * largest:
                    after[r] = rows[i, r]
            shrinks = 0.0
            for c in range(cells):
                falls = 0.0
                for r in range(rank):
                    falls += products[c, r] * (rows[i, r] - after[r])
                shrinks = max(shrinks, falls / means[c])
            promised = damped(slopes, curve, sums, rows[i], after, shrinks)
            largest = 0.0
            for r in range(rank):
                largest = max(largest, after[r])
            for r in range(rank):
                rows[i, r] = max(after[r], FLOOR * largest)
            if promised <= SETTLED * counts:
                break
