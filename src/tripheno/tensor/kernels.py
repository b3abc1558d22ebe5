"""Loops only. The meaning stands in the function beside each call; the plain twin in `reference`.

Storage the loops walk over: patients in order, a patient's cells between ``starts[i]`` and
``starts[i + 1]``; ``indices[cell, n]`` is the position in feature mode n, ``values[cell]`` the
count. All feature factors are stacked into one array; ``offsets[n]`` is mode n's first row.
Every loop works on patients ``first ≤ i < last`` and releases the GIL, so chunks run in threads.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

# For loops that allocate nothing, so that their arrays need no counting of who holds them: two
# threads that count the same arrays for every patient would wait for each other.
bare_loop: Any = njit(nogil=True, cache=True, _nrt=False)  # type: ignore[call-overload]


@njit(nogil=True, cache=True)
def mttkrp_patients(starts, indices, values, stacked, offsets, first, last, out):  # type: ignore[no-untyped-def]
    """Σ over a patient's cells of count · Π_n factor_n[index], into ``out[i]``."""
    rank = stacked.shape[1]
    modes = indices.shape[1]
    product = np.empty(rank)
    for i in range(first, last):
        for r in range(rank):
            out[i, r] = 0.0
        for cell in range(starts[i], starts[i + 1]):
            count = np.float64(values[cell])
            row = offsets[0] + indices[cell, 0]
            for r in range(rank):
                product[r] = count * stacked[row, r]
            for n in range(1, modes):
                row = offsets[n] + indices[cell, n]
                for r in range(rank):
                    product[r] *= stacked[row, r]
            for r in range(rank):
                out[i, r] += product[r]


@njit(nogil=True, cache=True)
def mttkrp_feature(  # type: ignore[no-untyped-def]
    starts, indices, values, stacked, offsets, patient_factor, target, first, last, out
):
    """Σ over cells of count · patient row · Π of the other factors, into the target mode's row."""
    rank = stacked.shape[1]
    modes = indices.shape[1]
    product = np.empty(rank)
    for i in range(first, last):
        for cell in range(starts[i], starts[i + 1]):
            count = np.float64(values[cell])
            for r in range(rank):
                product[r] = count * patient_factor[i, r]
            for n in range(modes):
                if n != target:
                    row = offsets[n] + indices[cell, n]
                    for r in range(rank):
                        product[r] *= stacked[row, r]
            row = indices[cell, target]
            for r in range(rank):
                out[row, r] += product[r]


@njit(nogil=True, cache=True)
def model_at_cells(  # type: ignore[no-untyped-def]
    starts, indices, values, stacked, offsets, patient_factor, first, last, out
):
    """``out`` = (Σ (model − count)², Σ model · count) over the stored cells."""
    rank = stacked.shape[1]
    modes = indices.shape[1]
    squared = 0.0
    inner = 0.0
    for i in range(first, last):
        for cell in range(starts[i], starts[i + 1]):
            model = 0.0
            for r in range(rank):
                product = patient_factor[i, r]
                for n in range(modes):
                    product *= stacked[offsets[n] + indices[cell, n], r]
                model += product
            count = np.float64(values[cell])
            squared += (model - count) ** 2
            inner += model * count
    out[0] = squared
    out[1] = inner


@bare_loop
def _solve_passive(gram, rhs, passive, size, triangle, solution):  # type: ignore[no-untyped-def]
    """Cholesky solve of the equations of the passive coordinates only."""
    for a in range(size):
        for b in range(a + 1):
            total = gram[passive[a], passive[b]]
            for c in range(b):
                total -= triangle[a, c] * triangle[b, c]
            if a == b:
                triangle[a, a] = np.sqrt(total) if total > 0.0 else 1e-150
            else:
                triangle[a, b] = total / triangle[b, b]
    for a in range(size):
        total = rhs[passive[a]]
        for c in range(a):
            total -= triangle[a, c] * solution[c]
        solution[a] = total / triangle[a, a]
    for a in range(size - 1, -1, -1):
        total = solution[a]
        for c in range(a + 1, size):
            total -= triangle[c, a] * solution[c]
        solution[a] = total / triangle[a, a]


@bare_loop
def nonnegative_row(b, gram, x, triangle, passive, solution, inside):  # type: ignore[no-untyped-def]
    """X = argmin_{x≥0} xᵀGx − 2xᵀb, by active sets (Lawson–Hanson on the Gram).

    The positive entries that ``x`` holds on entry are the first guess of the passive set: they
    change the speed, not the answer. The last four arguments are scratch.
    """
    rank = gram.shape[0]
    largest = 0.0
    for r in range(rank):
        largest = max(largest, abs(b[r]))
        inside[r] = x[r] > 0.0
    # The guess: drop what comes out negative until the rest is feasible.
    while True:
        size = 0
        for r in range(rank):
            if inside[r]:
                passive[size] = r
                size += 1
        _solve_passive(gram, b, passive, size, triangle, solution)
        dropped = False
        for a in range(size):
            if solution[a] <= 0.0:
                inside[passive[a]] = False
                dropped = True
        if not dropped:
            break
    for r in range(rank):
        x[r] = 0.0
    for a in range(size):
        x[passive[a]] = solution[a]
    # Lawson–Hanson: let in the steepest coordinate, walk to the new solution, drop what blocks.
    for _ in range(10 * rank):
        steepest = 1e-13 * largest
        chosen = -1
        for r in range(rank):
            if not inside[r]:
                slope = b[r]
                for c in range(rank):
                    slope -= gram[r, c] * x[c]
                if slope > steepest:
                    steepest = slope
                    chosen = r
        if chosen < 0:
            break
        inside[chosen] = True
        while True:
            size = 0
            for r in range(rank):
                if inside[r]:
                    passive[size] = r
                    size += 1
            _solve_passive(gram, b, passive, size, triangle, solution)
            step = 1.0
            for a in range(size):
                if solution[a] <= 0.0:
                    now = x[passive[a]]
                    ratio = now / (now - solution[a]) if now > solution[a] else 0.0
                    step = min(step, ratio)
            blocked = False
            for a in range(size):
                r = passive[a]
                moved = x[r] + step * (solution[a] - x[r])
                if solution[a] <= 0.0 and moved <= 1e-14 * (x[r] + 1e-300):
                    inside[r] = False
                    moved = 0.0
                    blocked = True
                x[r] = max(moved, 0.0)
            if not blocked:
                break


@njit(nogil=True, cache=True)
def nonnegative_rows(rhs, gram, first, last, out):  # type: ignore[no-untyped-def]
    """Each row of ``out`` by ``nonnegative_row``; what ``out`` holds on entry is the guess."""
    rank = gram.shape[0]
    triangle = np.empty((rank, rank))
    passive = np.empty(rank, np.int64)
    solution = np.empty(rank)
    inside = np.zeros(rank, np.bool_)
    for i in range(first, last):
        nonnegative_row(rhs[i], gram, out[i], triangle, passive, solution, inside)
