"""Solve A G = M for A, row by row: the small problem inside every factor update."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from scipy.linalg.lapack import dposv

from tripheno.tensor.nonnegative_kernels import nonnegative_rows
from tripheno.tensor.threads import in_chunks, patient_chunks

SINGULAR_BELOW = 1e-10  # smallest eigenvalue, where every component has length one
RIDGE = 1e-6  # the least it is made: what machines differ by in the last bit stays below 1e-9
SMALL = 1e-8  # of the mean size of a component: smaller ones count as of that size


def regular(gram: np.ndarray) -> tuple[np.ndarray, bool]:
    """G + max(0, ε − λ)·D, λ the smallest eigenvalue of D^(−½)GD^(−½); and do components coincide.

    D is G's diagonal, so that a ridge against two components that are alike does not press a small
    one. Without it the rows of a singular system are a machine's round-off. It grows from nothing
    as λ falls: a threshold would give one hospital a ridge and another none.
    """
    rank = len(gram)
    mean = float(np.trace(gram)) / rank
    if mean <= 0.0:
        return np.eye(rank), True
    sizes = np.diag(gram) + SMALL * mean
    smallest = float(np.linalg.eigvalsh(gram / np.sqrt(np.outer(sizes, sizes)))[0])
    ridge = RIDGE - smallest
    if ridge <= 0.0:
        return gram, False
    return gram + np.diag(ridge * sizes), smallest < SINGULAR_BELOW


def solve_positive(gram: np.ndarray, rhs: np.ndarray) -> np.ndarray:
    """G⁻¹ rhs by Cholesky, straight from LAPACK: small hospitals ask thousands of times."""
    _, found, failed = dposv(gram, rhs)
    if failed:
        raise np.linalg.LinAlgError("the Gram matrix is not positive definite")
    return np.asarray(found)


def solve_rows(
    rhs: np.ndarray, gram: np.ndarray, *, nonnegative: bool, guess: np.ndarray | None = None
) -> np.ndarray:
    """argmin_A tr(A G Aᵀ) − 2⟨M, A⟩, over A ≥ 0 where asked; G must be positive definite.

    ``guess`` speeds the non-negative solve and does not change its answer.
    """
    if not nonnegative:
        return solve_positive(gram, rhs.T).T
    out = np.zeros_like(rhs) if guess is None else guess.copy()
    in_chunks(
        _chunks(*rhs.shape),
        lambda first, last: nonnegative_rows(rhs, gram, first, last, out),
    )
    return out


@lru_cache(maxsize=256)  # a tournament asks for the same few hundreds of times
def _chunks(rows: int, rank: int) -> list[tuple[int, int]]:
    return patient_chunks(np.arange(rows + 1) * 10 * rank)  # a row is worth ten cells a component
