"""Loops only: least squares with x ≥ 0 for many rows that share one Gram matrix.

Each row is solved exactly: the coordinates that stay at zero are found, and the equations of the
others solved by Cholesky. Which coordinates those are is guessed cheaply, by sweeps of coordinate
descent from the last solution, so that most rows need one factorisation; what the guess gets wrong
only takes longer. Inner loops run along rows of memory and add to them, without a sum in a register
that one step hands to the next: those the compiler turns into vectors by itself.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from tripheno.tensor.kernels import STEP

SWEEPS = 8  # of coordinate descent before a factorisation; fewer once no coordinate comes or goes
GUESSES = 4  # until coordinates are let in one by one, which always ends
PANEL = 4  # rows of the triangle that are taken off the rest together
ENOUGH = 1e-13  # of the largest right-hand side: a slope that is zero but for round-off

# Products and sums may be rounded once; no order of sums is changed.
step: Any = njit(**STEP, fastmath={"contract"}, forceinline=True)  # type: ignore[call-overload]
called: Any = njit(**STEP)  # type: ignore[call-overload]


@step
def _take_off(out, by, row, begin, end):  # type: ignore[no-untyped-def]
    """Take by · row off a part of ``out``."""
    for c in range(begin, end):
        out[c] -= by * row[c]


@step
def _descend(gram, x, slopes):  # type: ignore[no-untyped-def]
    """Sweeps of coordinate descent until the set of positive coordinates stays; slopes = b − Gx."""
    rank = gram.shape[0]
    for _ in range(SWEEPS):
        moved = False
        for r in range(rank):
            before = x[r]
            after = max(before + slopes[r] / gram[r, r], 0.0)
            if after != before:
                moved |= (after > 0.0) != (before > 0.0)
                x[r] = after
                _take_off(slopes, after - before, gram[r], 0, rank)
        if not moved:
            break


@step
def _slopes(b, gram, x, slopes):  # type: ignore[no-untyped-def]
    """B − Gx; G is symmetric, so its rows serve as its columns."""
    rank = gram.shape[0]
    for r in range(rank):
        slopes[r] = b[r]
    for r in range(rank):
        if x[r] != 0.0:
            _take_off(slopes, x[r], gram[r], 0, rank)


@called
def _positions(inside, passive):  # type: ignore[no-untyped-def]
    """The coordinates inside, in order, and how many they are."""
    size = 0
    for r in range(inside.shape[0]):
        if inside[r]:
            passive[size] = r
            size += 1
    return size


@step
def _finish_rows(upper, begin, end, size):  # type: ignore[no-untyped-def]
    """Turn a panel's rows, free of those above, into rows of the triangle."""
    for k in range(begin, end):
        for above in range(begin, k):
            _take_off(upper[k], upper[above, k], upper[above], k, size)
        pivot = upper[k, k]  # kept as the reciprocal of its root: divisions are slow
        scale = 1.0 / np.sqrt(pivot) if pivot > 0.0 else 1e150
        for c in range(k, size):
            upper[k, c] *= scale
        upper[k, k] = scale


@step
def _take_panel_off(upper, begin, j, size):  # type: ignore[no-untyped-def]
    """Take a whole panel off row j, in one walk along it."""
    one, two, three, four = upper[begin], upper[begin + 1], upper[begin + 2], upper[begin + 3]
    a, b, c, d = one[j], two[j], three[j], four[j]
    row = upper[j]
    for at in range(j, size):
        row[at] -= a * one[at] + b * two[at] + c * three[at] + d * four[at]


@step
def _factorise(gram, passive, size, upper):  # type: ignore[no-untyped-def]
    """UᵀU = the part of G that belongs to the passive coordinates."""
    for k in range(size):
        row = gram[passive[k]]
        for c in range(k, size):
            upper[k, c] = row[passive[c]]
    begin = 0
    while begin < size:
        end = min(begin + PANEL, size)
        _finish_rows(upper, begin, end, size)
        for j in range(end, size):  # there are further rows after a whole panel only
            _take_panel_off(upper, begin, j, size)
        begin = end


@called
def _solve_passive(gram, rhs, passive, size, upper, solution):  # type: ignore[no-untyped-def]
    """Cholesky solve of the equations of the passive coordinates only."""
    _factorise(gram, passive, size, upper)
    for k in range(size):
        solution[k] = rhs[passive[k]]
    for k in range(size):
        solution[k] *= upper[k, k]
        _take_off(solution, solution[k], upper[k], k + 1, size)
    for k in range(size - 1, -1, -1):
        total = solution[k]
        for c in range(k + 1, size):
            total -= upper[k, c] * solution[c]
        solution[k] = total * upper[k, k]


@called
def _best_of_guess(b, gram, x, upper, passive, solution, inside):  # type: ignore[no-untyped-def]
    """The positive coordinates, less what comes out negative, each to its best."""
    rank = gram.shape[0]
    for r in range(rank):
        inside[r] = x[r] > 0.0
        x[r] = 0.0
    while True:
        size = _positions(inside[:rank], passive)
        _solve_passive(gram, b, passive, size, upper, solution)
        dropped = False
        for a in range(size):
            if solution[a] <= 0.0:
                inside[passive[a]] = False
                dropped = True
        if not dropped:
            break
    for a in range(size):
        x[passive[a]] = solution[a]


@called
def _steepest(slopes, inside, above, rank):  # type: ignore[no-untyped-def]
    """The coordinate outside whose slope is largest and above a bound; −1 if none is."""
    chosen = -1
    for r in range(rank):
        if not inside[r] and slopes[r] > above:
            above = slopes[r]
            chosen = r
    return chosen


@called
def _walk(b, gram, x, upper, passive, solution, inside):  # type: ignore[no-untyped-def]
    """From x to the best of the coordinates inside, dropping what blocks the way."""
    rank = gram.shape[0]
    blocked = True
    while blocked:
        size = _positions(inside[:rank], passive)
        _solve_passive(gram, b, passive, size, upper, solution)
        length = 1.0
        for a in range(size):
            if solution[a] <= 0.0:
                now = x[passive[a]]
                ratio = now / (now - solution[a]) if now > solution[a] else 0.0
                length = min(length, ratio)
        blocked = False
        for a in range(size):
            r = passive[a]
            moved = x[r] + length * (solution[a] - x[r])
            if solution[a] <= 0.0 and moved <= 1e-14 * (x[r] + 1e-300):
                inside[r] = False
                moved = 0.0
                blocked = True
            x[r] = max(moved, 0.0)
    if length == 1.0:
        for a in range(size):  # to the last bit: where the way began leaves no trace
            x[passive[a]] = solution[a]


@called
def nonnegative_row(b, gram, x, upper, passive, solution, slopes, inside):  # type: ignore[no-untyped-def]
    """X = argmin_{x≥0} xᵀGx − 2xᵀb, by active sets (Lawson–Hanson on the Gram).

    ``x`` holds a guess on entry, which changes the speed and not the answer. The last five
    arguments are scratch.
    """
    rank = gram.shape[0]
    largest = 0.0
    for r in range(rank):
        largest = max(largest, abs(b[r]))
    for r in range(rank):  # a guess out of all proportion would leave nothing of the slopes
        x[r] = min(max(x[r], 0.0), 10.0 * largest / gram[r, r])
    _slopes(b, gram, x, slopes)
    for _ in range(GUESSES):
        _descend(gram, x, slopes)
        _best_of_guess(b, gram, x, upper, passive, solution, inside)
        _slopes(b, gram, x, slopes)
        chosen = _steepest(slopes, inside, ENOUGH * largest, rank)
        if chosen < 0:
            return
    for _ in range(10 * rank):  # Lawson–Hanson: one coordinate in, then to the best with it
        inside[chosen] = True
        _walk(b, gram, x, upper, passive, solution, inside)
        _slopes(b, gram, x, slopes)
        chosen = _steepest(slopes, inside, ENOUGH * largest, rank)
        if chosen < 0:
            return


@njit(nogil=True, cache=True)
def nonnegative_rows(rhs, gram, first, last, out):  # type: ignore[no-untyped-def]
    """Each row of ``out`` by ``nonnegative_row``; what ``out`` holds on entry is the guess."""
    rank = gram.shape[0]
    upper = np.empty((rank, rank))
    passive = np.empty(rank, np.int64)
    solution = np.empty(rank)
    slopes = np.empty(rank)
    inside = np.zeros(rank, np.bool_)
    for i in range(first, last):
        nonnegative_row(rhs[i], gram, out[i], upper, passive, solution, slopes, inside)
