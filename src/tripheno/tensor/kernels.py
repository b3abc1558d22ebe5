"""Loops only. The meaning stands in the function beside each call; the plain twin in `reference`.

Storage the loops walk over: patients in order, a patient's cells between ``starts[i]`` and
``starts[i + 1]``, sorted; ``indices[cell, n]`` is the position in feature mode n, ``values[cell]``
the count. Cells that differ in the last mode only are a *fibre*: what its other modes have in
common is multiplied once. All feature factors are stacked into one array; ``offsets[n]`` is mode
n's first row. Every loop works on patients ``first ≤ i < last`` and releases the GIL, so chunks
run in threads.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

# For loops that allocate nothing, so that their arrays need no counting of who holds them: two
# threads that count the same arrays for every patient would wait for each other.
bare_loop: Any = njit(nogil=True, cache=True, _nrt=False)  # type: ignore[call-overload]
# For the steps inside such loops: a call that hands over all arrays of a body costs more than the
# work on a patient with few events. Nothing but compiled loops calls them, so no gate from Python
# is compiled for them, and whoever keeps a loop keeps its steps.
STEP = {"nogil": True, "_nrt": False, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
inner_step: Any = njit(**STEP, forceinline=True)  # type: ignore[call-overload]


@inner_step
def _fibre_end(indices, cell, end):  # type: ignore[no-untyped-def]
    """Where the run of cells ends that differ in the last mode only."""
    last = indices.shape[1] - 1
    after = cell + 1
    while after < end:
        for n in range(last):
            if indices[after, n] != indices[cell, n]:
                return after
        after += 1
    return after


@inner_step
def _multiply_others(indices, cell, stacked, offsets, target, product):  # type: ignore[no-untyped-def]
    """Multiply ``product`` by the factors of a fibre's modes: all but the last and the target."""
    for n in range(indices.shape[1] - 1):
        if n != target:
            row = offsets[n] + indices[cell, n]
            for r in range(product.shape[0]):
                product[r] *= stacked[row, r]


@inner_step
def _sum_fibre(indices, values, stacked, offsets, cell, end, total):  # type: ignore[no-untyped-def]
    """Total = Σ over a fibre of count · the last mode's factor."""
    last = indices.shape[1] - 1
    for r in range(total.shape[0]):
        total[r] = 0.0
    for c in range(cell, end):
        count = np.float64(values[c])
        row = offsets[last] + indices[c, last]
        for r in range(total.shape[0]):
            total[r] += count * stacked[row, r]


@njit(nogil=True, cache=True)
def mttkrp_patients(starts, indices, values, stacked, offsets, first, last, out):  # type: ignore[no-untyped-def]
    """Σ over a patient's cells of count · Π_n factor_n[index], into ``out[i]``."""
    total = np.empty(stacked.shape[1])
    for i in range(first, last):
        out[i, :] = 0.0
        cell = starts[i]
        while cell < starts[i + 1]:
            end = _fibre_end(indices, cell, starts[i + 1])
            _sum_fibre(indices, values, stacked, offsets, cell, end, total)
            _multiply_others(indices, cell, stacked, offsets, -1, total)
            for r in range(total.shape[0]):
                out[i, r] += total[r]
            cell = end


@njit(nogil=True, cache=True)
def mttkrp_feature(  # type: ignore[no-untyped-def]
    starts, indices, values, stacked, offsets, patient_factor, target, first, last, out
):
    """Σ over cells of count · patient row · Π of the other factors, into the target mode's row."""
    last_mode = indices.shape[1] - 1
    total = np.empty(stacked.shape[1])
    for i in range(first, last):
        cell = starts[i]
        while cell < starts[i + 1]:
            end = _fibre_end(indices, cell, starts[i + 1])
            if target == last_mode:
                total[:] = patient_factor[i]
                _multiply_others(indices, cell, stacked, offsets, -1, total)
                for c in range(cell, end):
                    row, count = indices[c, last_mode], np.float64(values[c])
                    for r in range(total.shape[0]):
                        out[row, r] += count * total[r]
            else:
                _sum_fibre(indices, values, stacked, offsets, cell, end, total)
                _multiply_others(indices, cell, stacked, offsets, target, total)
                row = indices[cell, target]
                for r in range(total.shape[0]):
                    out[row, r] += patient_factor[i, r] * total[r]
            cell = end


@njit(nogil=True, cache=True)
def model_at_cells(  # type: ignore[no-untyped-def]
    starts, indices, values, stacked, offsets, patient_factor, weights, first, last, out
):
    """``out`` += (Σ w_i (model − count)², Σ w_i · model · count) over the stored cells."""
    last_mode = indices.shape[1] - 1
    product = np.empty(stacked.shape[1])
    for i in range(first, last):
        squared = inner = 0.0
        cell = starts[i]
        while cell < starts[i + 1]:
            end = _fibre_end(indices, cell, starts[i + 1])
            product[:] = patient_factor[i]
            _multiply_others(indices, cell, stacked, offsets, -1, product)
            for c in range(cell, end):
                row = offsets[last_mode] + indices[c, last_mode]
                model = 0.0
                for r in range(product.shape[0]):
                    model += product[r] * stacked[row, r]
                count = np.float64(values[c])
                squared += (model - count) ** 2
                inner += model * count
            cell = end
        out[0] += weights[i] * squared
        out[1] += weights[i] * inner
