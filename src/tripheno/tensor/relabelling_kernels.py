"""Loops over relabelled twins of a patient; the plain twins stand in `reference`. See `kernels`."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(nogil=True, cache=True)
def first_distinct(ends, guide, numbers, found, short):  # type: ignore[no-untyped-def]
    """Per row of uniform ``numbers``: the first codes drawn by weight that differ, into ``found``.

    ``ends`` are the ends of the codes' shares of one, ``guide[b]`` the first of them beyond
    b / len(guide), from which the search begins; ``short`` says where there were too few.
    """
    count, many = numbers.shape
    size = found.shape[1]
    last = ends.shape[0] - 1
    seen = np.full(ends.shape[0], -1, np.int64)
    for t in range(count):
        filled = 0
        for k in range(many):
            if filled == size:
                break
            low = guide[int(numbers[t, k] * guide.shape[0])]
            while low < last and ends[low] <= numbers[t, k]:  # the last code if no end is beyond
                low += 1
            if seen[low] != t:
                seen[low] = t
                found[t, filled] = low
                filled += 1
        short[t] = filled < size


def guide_to(ends: np.ndarray) -> np.ndarray:
    """Where a search among these ends begins: a power of two of steps, so that b is exact."""
    steps = 1 << max(len(ends) - 1, 1).bit_length()
    found = np.searchsorted(ends, np.arange(steps) / steps, side="right")
    return np.minimum(found, len(ends) - 1)


@njit(nogil=True, cache=True)
def relabelled_products(values, places, drawn, stacked, out):  # type: ignore[no-untyped-def]
    """``out[t, r]`` += Σ_cells count · Π_n stacked[drawn[t, places[cell, n]], r], for every twin t.

    Cells of one first-mode code stand together: its row is multiplied once for all of them.
    """
    cells, modes = places.shape
    columns = stacked.shape[1]
    inner = np.zeros(columns)
    for t in range(drawn.shape[0]):
        for cell in range(cells):
            second = drawn[t, places[cell, 1]]
            if modes == 2:
                for r in range(columns):
                    inner[r] += values[cell] * stacked[second, r]
            else:
                for r in range(columns):
                    product = values[cell] * stacked[second, r]
                    for n in range(2, modes):
                        product *= stacked[drawn[t, places[cell, n]], r]
                    inner[r] += product
            if cell + 1 == cells or places[cell + 1, 0] != places[cell, 0]:
                first = drawn[t, places[cell, 0]]
                for r in range(columns):
                    out[t, r] += inner[r] * stacked[first, r]
                    inner[r] = 0.0
