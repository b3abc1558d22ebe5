"""Loops only, over words of the field with p = 2⁶¹ − 1; the meaning stands in `field`.

Every loop is one straight pass without a branch, so that the compiler makes vectors of it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from tripheno.compiled import find_a_place

find_a_place()
bare_loop: Any = njit(nogil=True, cache=True, _nrt=False)  # type: ignore[call-overload]

P = np.uint64((1 << 61) - 1)
HALF = np.uint64((1 << 60) - 1)
BITS = np.uint64(61)
LOW29, LOW32 = np.uint64((1 << 29) - 1), np.uint64((1 << 32) - 1)
S3, S29, S32 = np.uint64(3), np.uint64(29), np.uint64(32)
ZERO = np.uint64(0)


@bare_loop
def into_field(numbers, words):  # type: ignore[no-untyped-def]
    """Set words = numbers mod p, for |number| < p."""
    for i in range(numbers.size):
        number = np.uint64(numbers[i])
        words[i] = min(number, number + P)  # a negative number is huge as an unsigned one


@bare_loop
def out_of_field(words, numbers):  # type: ignore[no-untyped-def]
    """Set numbers = the representatives in −2⁶⁰ < number < 2⁶⁰."""
    for i in range(words.size):
        word = words[i]
        numbers[i] = np.int64(word - (P if word > HALF else ZERO))


@bare_loop
def add_words(words, others):  # type: ignore[no-untyped-def]
    """Let words += others, both below p."""
    for i in range(words.size):
        total = words[i] + others[i]
        words[i] = min(total, total - P)


@bare_loop
def add_stream(words, raw):  # type: ignore[no-untyped-def]
    """Let words += raw mod p."""
    for i in range(words.size):
        element = (raw[i] & P) + (raw[i] >> BITS)
        total = words[i] + min(element, element - P)
        words[i] = min(total, total - P)


@bare_loop
def subtract_stream(words, raw):  # type: ignore[no-untyped-def]
    """Let words −= raw mod p."""
    for i in range(words.size):
        element = (raw[i] & P) + (raw[i] >> BITS)
        total = words[i] + P - min(element, element - P)
        words[i] = min(total, total - P)


@bare_loop
def inner_product(words, raw):  # type: ignore[no-untyped-def]
    """Σ (raw mod p) · words, as two sums: the products' low 32 bits, and what is above them.

    With a = a₁2³² + a₀ and x = x₁2³² + x₀: 2⁶⁴ ≡ 8 and 2⁶¹ ≡ 1, so each product is folded below
    2⁶³ by shifts. The two sums hold for 2³¹ words.
    """
    low, high = ZERO, ZERO
    for i in range(words.size):
        a = (raw[i] & P) + (raw[i] >> BITS)
        a = min(a, a - P)
        x = words[i]
        a0, a1, x0, x1 = a & LOW32, a >> S32, x & LOW32, x >> S32
        middle = a1 * x0 + a0 * x1
        bottom = a0 * x0
        product = (bottom & P) + (bottom >> BITS) + ((middle & LOW29) << S32) + (middle >> S29)
        product += (a1 * x1) << S3
        low += product & LOW32
        high += product >> S32
    return low, high


@bare_loop
def scaled_into(values, lane_of, scales, most, numbers, overflow):  # type: ignore[no-untyped-def]
    """Set numbers = round(values · scales of their lanes); say of each lane whether one ≥ most.

    Gives Σ (x − x), which is zero where every value is finite.
    """
    unfit = 0.0
    for i in range(values.size):
        lane = lane_of[i]
        unfit += values[i] - values[i]
        number = np.rint(values[i] * scales[lane])
        fits = abs(number) < most
        overflow[lane] |= not fits
        numbers[i] = np.int64(number) if fits else 0
    return unfit


@bare_loop
def largest_of_lanes(numbers, lane_of, largest):  # type: ignore[no-untyped-def]
    """Raise largest to the largest |number| of each lane."""
    for i in range(numbers.size):
        lane = lane_of[i]
        largest[lane] = max(largest[lane], abs(numbers[i]))
