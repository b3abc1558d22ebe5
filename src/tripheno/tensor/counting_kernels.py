"""Loops only: from sorted events to counted cells. Their meaning stands in `counting`.

A cell is one number, its *key* Σ_n position_n · stride_n. A patient's keys are written one after
the other, sorted, and equal ones counted in place, so memory is bounded by the chunk in hand.
"""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(nogil=True, cache=True)
def keys_by_patient(patient, window, position, first_window, positions, cursors, keys):  # type: ignore[no-untyped-def]
    """Put every event's key, window · positions + position, among those of its patient."""
    for e in range(patient.shape[0]):
        i = patient[e]
        keys[cursors[i]] = (window[e] - first_window) * positions + position[e]
        cursors[i] += 1


@njit(nogil=True, cache=True)
def sort_patients(keys, starts, positions, first, last, events, windows):  # type: ignore[no-untyped-def]
    """Sort each patient's keys, equal ones once; count what is left, and the windows in it."""
    for i in range(first, last):
        begin, end = starts[i], starts[i + 1]
        keys[begin:end].sort()
        filled = begin
        windows[i] = 0
        for k in range(begin, end):
            if k > begin and keys[k] == keys[filled - 1]:
                continue
            if k == begin or keys[k] // positions != keys[filled - 1] // positions:
                windows[i] += 1
            keys[filled] = keys[k]
            filled += 1
        events[i] = filled - begin


@njit(nogil=True, cache=True)
def starts_of_digits(keys, place, width):  # type: ignore[no-untyped-def]
    """Where the keys with each value of the ``width`` bits above ``place`` will begin."""
    starts = np.zeros((1 << width) + 1, np.int64)
    mask = (1 << width) - 1
    for k in range(keys.shape[0]):
        starts[((keys[k] >> place) & mask) + 1] += 1
    for digit in range(1, starts.shape[0]):
        starts[digit] += starts[digit - 1]
    return starts


@njit(nogil=True, cache=True)
def scatter_by_digit(keys, place, width, cursors, out):  # type: ignore[no-untyped-def]
    """One pass of a radix sort: keys in the order of these bits, equal ones as they came."""
    mask = (1 << width) - 1
    for k in range(keys.shape[0]):
        digit = (keys[k] >> place) & mask
        out[cursors[digit]] = keys[k]
        cursors[digit] += 1


@njit(nogil=True, cache=True)
def add_equal_cells(keys, bits, shift, indices, sums):  # type: ignore[no-untyped-def]
    """Sorted keys, cell · 2^shift + count, as indices and counts; equal cells are added up.

    The sum stands at the first of equal cells; the others are left with zero.
    """
    modes = bits.shape[0]
    first, before = 0, np.int64(-1)
    for k in range(keys.shape[0]):
        cell = keys[k] >> shift
        count = keys[k] - (cell << shift)
        sums[k] = 0
        if cell != before:
            first, before = k, cell
        sums[first] += count
        for n in range(modes - 1, -1, -1):
            indices[k, n] = cell & ((1 << bits[n]) - 1)
            cell >>= bits[n]


@njit(nogil=True, cache=True)
def split_keys(  # type: ignore[no-untyped-def]
    keys, starts, positions, first, last, event_starts, patient_windows, windows, events
):
    """Write sorted keys as positions, and where each window begins."""
    for i in range(first, last):
        w = patient_windows[i]
        before = -1
        for e in range(event_starts[i], event_starts[i + 1]):
            key = keys[starts[i] + e - event_starts[i]]
            window = key // positions
            if window != before:
                windows[w] = e
                w += 1
                before = window
            events[e] = key - window * positions


@njit(nogil=True, cache=True)
def window_bounds(windows, patient_windows, events, offsets, out):  # type: ignore[no-untyped-def]
    """How many keys each patient's windows will give, before equal ones are added up."""
    modes = offsets.shape[0] - 1
    for i in range(patient_windows.shape[0] - 1):
        total = 0
        for w in range(patient_windows[i], patient_windows[i + 1]):
            product = 1
            cursor = windows[w]
            for n in range(modes):
                begin = cursor
                while cursor < windows[w + 1] and events[cursor] < offsets[n + 1]:
                    cursor += 1
                product *= cursor - begin
            total += product
        out[i] = total


@njit(nogil=True, cache=True)
def _compress(keys, counts, begin, end, cap):  # type: ignore[no-untyped-def]
    """Sort keys[begin:end], count equal ones in place; return where the distinct ones end."""
    keys[begin:end].sort()
    filled = begin
    run = begin
    for k in range(begin + 1, end + 1):
        if k == end or keys[k] != keys[run]:
            count = k - run
            keys[filled] = keys[run]
            counts[filled] = min(count, cap) if cap > 0 else count
            filled += 1
            run = k
    return filled


@njit(nogil=True, cache=True)
def count_windows(  # type: ignore[no-untyped-def]
    windows, patient_windows, events, offsets, strides, cap, first, last, keys, counts, cells
):
    """Cells of patients first ≤ i < last: codes, one of each mode, that share a window.

    ``events`` are positions on the stacked axes, sorted and distinct within a window.
    """
    modes = offsets.shape[0] - 1
    begins = np.empty(modes, np.int64)
    ends = np.empty(modes, np.int64)
    at = np.empty(modes, np.int64)
    filled = 0
    for i in range(first, last):
        start = filled
        for w in range(patient_windows[i], patient_windows[i + 1]):
            cursor = windows[w]
            product = 1
            for n in range(modes):
                begins[n] = cursor
                while cursor < windows[w + 1] and events[cursor] < offsets[n + 1]:
                    cursor += 1
                ends[n] = cursor
                product *= ends[n] - begins[n]
            at[:] = begins
            for _ in range(product):
                key = 0
                for n in range(modes):
                    key += (events[at[n]] - offsets[n]) * strides[n]
                keys[filled] = key
                filled += 1
                for n in range(modes - 1, -1, -1):
                    at[n] += 1
                    if at[n] < ends[n] or n == 0:
                        break
                    at[n] = begins[n]
        filled = _compress(keys, counts, start, filled, cap)
        cells[i] = filled - start
    return filled


@njit(nogil=True, cache=True)
def sliding_bounds(times, patient_events, boundaries, width, out):  # type: ignore[no-untyped-def]
    """How many pairs at most ``width`` apart each patient has."""
    for i in range(boundaries.shape[0]):
        low = high = boundaries[i]
        last = patient_events[i + 1]
        total = 0
        for e in range(patient_events[i], boundaries[i]):
            while low < last and times[low] < times[e] - width:
                low += 1
            high = max(high, low)
            while high < last and times[high] <= times[e] + width:
                high += 1
            total += high - low
        out[i] = total


@njit(nogil=True, cache=True)
def count_sliding(  # type: ignore[no-untyped-def]
    times,
    patient_events,
    boundaries,
    events,
    offsets,
    strides,
    width,
    cap,
    first,
    last,
    keys,
    counts,
    cells,
):
    """Cells of patients first ≤ i < last: pairs of events at most ``width`` apart, by pairs.

    A patient's events are ordered by mode, then time; ``boundaries[i]`` is the first event of the
    second mode.
    """
    filled = 0
    for i in range(first, last):
        start = filled
        low = high = boundaries[i]
        last_event = patient_events[i + 1]
        for e in range(patient_events[i], boundaries[i]):
            while low < last_event and times[low] < times[e] - width:
                low += 1
            high = max(high, low)
            while high < last_event and times[high] <= times[e] + width:
                high += 1
            head = (events[e] - offsets[0]) * strides[0]
            for f in range(low, high):
                keys[filled] = head + (events[f] - offsets[1]) * strides[1]
                filled += 1
        filled = _compress(keys, counts, start, filled, cap)
        cells[i] = filled - start
    return filled
