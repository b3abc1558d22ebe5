"""Solve A G = M for A, row by row: the small problem inside every factor update."""

from __future__ import annotations

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from tripheno.tensor.nonnegative_kernels import nonnegative_rows
from tripheno.tensor.threads import in_chunks, patient_chunks

SINGULAR_BELOW = 1e-10  # smallest eigenvalue, as a share of the mean one
RIDGE = 1e-8


def regular(gram: np.ndarray) -> tuple[np.ndarray, bool]:
    """G, or G + ε·tr(G)/R·I where two components coincide; and whether that was needed.

    Without the ridge the rows of a singular system are arbitrary.
    """
    rank = len(gram)
    mean = float(np.trace(gram)) / rank
    if mean <= 0.0:
        return np.eye(rank), True
    if float(np.linalg.eigvalsh(gram)[0]) >= SINGULAR_BELOW * mean:
        return gram, False
    return gram + RIDGE * mean * np.eye(rank), True


def solve_rows(
    rhs: np.ndarray, gram: np.ndarray, *, nonnegative: bool, guess: np.ndarray | None = None
) -> np.ndarray:
    """argmin_A tr(A G Aᵀ) − 2⟨M, A⟩, over A ≥ 0 where asked; G must be positive definite.

    ``guess`` speeds the non-negative solve and does not change its answer.
    """
    if not nonnegative:
        return np.ascontiguousarray(cho_solve(cho_factor(gram), rhs.T).T)
    out = np.zeros_like(rhs) if guess is None else guess.copy()
    steps = np.arange(len(rhs) + 1) * 10 * len(gram)  # a row is worth about ten cells a component
    in_chunks(
        patient_chunks(steps),
        lambda first, last: nonnegative_rows(rhs, gram, first, last, out),
    )
    return out
