"""Loops only: what the machine can do at best, measured beside what we do."""

from __future__ import annotations

import numpy as np
from numba import njit

from tripheno.tensor.strips import load_strip, multiply_add, store_strip

CHAINS = 8  # multiply-adds that do not wait for each other: two units of latency four need that
FLOPS_PER_STEP = 2 * 4 * CHAINS  # a multiplication and an addition in each lane of a vector


@njit(nogil=True, cache=True)
def multiply_in_registers(steps, out):  # type: ignore[no-untyped-def]
    """Multiply-adds on numbers that never leave the registers."""
    width = (0, 0)  # with the operands, twelve of sixteen registers
    a, b = load_strip(out, np.uint64(0), width), load_strip(out, np.uint64(8), width)
    one, two, three, four = a, b, a, b
    for _ in range(steps):
        one = multiply_add(one, a, b)
        two = multiply_add(two, a, b)
        three = multiply_add(three, a, b)
        four = multiply_add(four, a, b)
    store_strip(one, out, np.uint64(0))
    store_strip(two, out, np.uint64(8))
    store_strip(three, out, np.uint64(16))
    store_strip(four, out, np.uint64(24))


@njit(nogil=True, cache=True, fastmath=True)
def triad(a, b, c):  # type: ignore[no-untyped-def]
    """STREAM's triad, a = b + 3c."""
    for i in range(a.shape[0]):
        a[i] = b[i] + 3.0 * c[i]
