"""Loops of the Poisson loss over cells; the plain twin stands in `reference`. See `kernels`."""

from __future__ import annotations

import numpy as np
from numba import njit

from tripheno.tensor.nonnegative_kernels import nonnegative_row


@njit(nogil=True, cache=True)
def poisson_sums(  # type: ignore[no-untyped-def]
    starts, indices, values, stacked, offsets, patients, weights, target, slopes, curves, out
):
    """Add Σ w(x/m)π, Σ w(x/m²)ππᵀ (lower triangle, row by row) per row of the target mode.

    Target −1 is the patient mode, whose rows take no weight. ``out[0]`` += Σ w x log m.
    """
    rank = stacked.shape[1]
    product = np.empty(rank)
    for i in range(starts.shape[0] - 1):
        weight = 1.0 if target < 0 else weights[i]
        for cell in range(starts[i], starts[i + 1]):
            row = i
            for r in range(rank):
                product[r] = 1.0 if target < 0 else patients[i, r]
            for n in range(indices.shape[1]):
                at = offsets[n] + indices[cell, n]
                if n == target:
                    row = indices[cell, n]
                    continue
                for r in range(rank):
                    product[r] *= stacked[at, r]
            mean = 0.0
            for r in range(rank):
                own = patients[i, r] if target < 0 else stacked[offsets[target] + row, r]
                mean += product[r] * own
            mean = max(mean, 1e-300)
            share = weight * values[cell] / mean
            out[0] += weight * values[cell] * np.log(mean)
            place = 0
            for r in range(rank):
                slopes[row, r] += share * product[r]
                bent = share * product[r] / mean
                for s in range(r + 1):
                    curves[row, place] += bent * product[s]
                    place += 1


@njit(nogil=True, cache=True)
def newton_rows(slopes, curves, sums, least, factor, out):  # type: ignore[no-untyped-def]
    """Each row one damped Newton step: z = argmin_{z≥0} ½zᵀHz − zᵀ(Ha − ∇), a + t(z − a).

    −x log m is self-concordant, so with the decrement λ = √(dᵀHd/least) a step of 1, or 1/(1 + λ)
    where λ > ½, lowers the loss without asking for its value.
    """
    rows, rank = factor.shape
    curve = np.empty((rank, rank))
    triangle = np.empty((rank, rank))
    passive = np.empty(rank, np.int64)
    solution = np.empty(rank)
    steep = np.empty(rank)
    inside = np.zeros(rank, np.bool_)
    linear = np.empty(rank)
    for i in range(rows):
        place = 0
        trace = 0.0
        for r in range(rank):
            for s in range(r + 1):
                curve[r, s] = curves[i, place]
                curve[s, r] = curves[i, place]
                place += 1
            trace += curve[r, r]
        if trace <= 0.0:  # no count in this row: the loss is its sum, least at zero
            for r in range(rank):
                out[i, r] = 0.0
            continue
        for r in range(rank):
            curve[r, r] += 1e-9 * trace
        for r in range(rank):
            linear[r] = slopes[i, r] - sums[r]
            for s in range(rank):
                linear[r] += curve[r, s] * factor[i, s]
            out[i, r] = factor[i, r]
        nonnegative_row(linear, curve, out[i], triangle, passive, solution, steep, inside)
        decrement = 0.0
        for r in range(rank):
            for s in range(rank):
                decrement += (out[i, r] - factor[i, r]) * curve[r, s] * (out[i, s] - factor[i, s])
        decrement = np.sqrt(max(decrement, 0.0) / least)
        step = 1.0 if decrement <= 0.5 else 1.0 / (1.0 + decrement)
        for r in range(rank):
            out[i, r] = factor[i, r] + step * (out[i, r] - factor[i, r])
