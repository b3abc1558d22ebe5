"""Loops only: what the machine can do at best, measured beside what we do."""

from __future__ import annotations

import numpy as np
from numba import njit

from tripheno.tensor.vectors import add_products, empty_tile, store_tile

FLOPS_PER_STEP = 2 * 4 * 12  # a multiplication and an addition for four rows of three vectors


@njit(nogil=True, cache=True)
def multiply_in_registers(steps, out):  # type: ignore[no-untyped-def]
    """The kernels' own inner step on data that never leaves the first cache."""
    table, data = np.arange(256.0), np.ones(4, np.uint8)
    right = np.full(12, 1e-3)
    tile = empty_tile(right, (0, 0, 0))
    for _ in range(steps):
        tile = add_products(tile, table, data, np.uint64(0), right, np.uint64(0))
    store_tile(tile, out, np.uint64(0), np.uint64(12))


@njit(nogil=True, cache=True, fastmath=True)
def triad(a, b, c):  # type: ignore[no-untyped-def]
    """STREAM's triad, a = b + 3c."""
    for i in range(a.shape[0]):
        a[i] = b[i] + 3.0 * c[i]
