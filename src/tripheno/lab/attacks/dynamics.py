"""Telling hospitals apart by the dynamics of `trip`: an attack by those who read the totals.

With z_s = 2M_k + A_s Ω_k + H_k, a hospital's steps on one mode, as long as M_k and G_k stay, are

    z_{s+1} = z_s F_k + (2A_{s+1} − (2 − ρ)A_s) Ω_k,      F_k = I − ρ(2G_k + Ω_k)⁻¹Ω_k,
    U_s     = −z_s F_k + 2M_k + (2 − ρ)A_s Ω_k,

linear systems with known inputs, whose outputs are seen in one sum. Every code is one experiment
with the same dynamics. Subspace identification gives their 2R eigenvalues and directions q_j; the
q_j of one hospital are those with diagonal Σ q_j q_jᵀ = Ω_k. How far from diagonal it is shows the
attacker whether it succeeded; then G_k follows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, islice, pairwise

import numpy as np

BLOCKS = 3  # steps side by side in which the same state is looked for
HALVES = 2  # hospitals that are told apart


@dataclass(frozen=True)
class Steps:
    """Consecutive steps on one mode: the shared factor before each, and the honest hospitals' sum.

    ``omega`` is the sum of their penalties, ``relaxation`` ρ.
    """

    shared: Sequence[np.ndarray]
    proposals: Sequence[np.ndarray]
    omega: np.ndarray
    relaxation: float


@dataclass(frozen=True)
class Identified:
    """What the attacker claims of each hospital, and how badly its model fits what it saw."""

    grams: tuple[np.ndarray, ...]
    residual: float


def identify(steps: Steps) -> Identified | None:
    """Two hospitals' G_k from the sum of their steps; nothing where there are too few."""
    moved, inputs = _differences(steps)
    if len(moved) < BLOCKS or len(moved[0]) <= moved[0].shape[1] * (BLOCKS + 1):
        return None
    values, directions = _modes(moved, inputs)
    scaled, misfit = _scaled(moved, inputs, values, directions, steps.omega)
    first, uneven = _split(scaled)
    groups = (first, [j for j in range(len(values)) if j not in first])
    grams = []
    for group in groups:
        q, own = scaled[:, group], values[group]
        omega = np.maximum(np.abs(np.diag(q @ q.T)), 1e-300)
        turn = (q * own) @ q.T / omega[:, None]  # F_k = Σ λ_j Ω⁻¹ q_j q_jᵀ
        kept = np.linalg.pinv((np.eye(len(omega)) - turn) / steps.relaxation)
        gram = 0.5 * (np.diag(omega) @ kept - np.diag(omega))
        grams.append(0.5 * (gram + gram.T))
    return Identified(tuple(grams), float(np.hypot(misfit, uneven)))


def _differences(steps: Steps) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """E_s = −Σ d_s F and the inputs v_s of d_{s+1} = d_s F + v_s Ω: M_k is gone from both."""
    rho, shared, seen = steps.relaxation, steps.shared, steps.proposals
    pairs = range(len(seen) - 1)
    drive = [2.0 * shared[s + 1] - (2.0 - rho) * shared[s] for s in pairs]
    moved = [
        seen[s + 1] - seen[s] - (2.0 - rho) * (shared[s + 1] - shared[s]) * steps.omega
        for s in pairs
    ]
    return moved, [b - a for a, b in pairwise(drive)]


def _modes(moved: list[np.ndarray], inputs: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues of both hospitals' F, and the directions in which each is seen (R × 2R)."""
    rank = moved[0].shape[1]
    wide = min(len(moved), max(len(moved[0]) // rank - HALVES, BLOCKS))
    seen = np.hstack(moved[:wide])
    known = np.hstack(inputs[: wide - 1])
    known = known / np.maximum(np.linalg.norm(known, axis=0), 1e-300)
    seen = seen - known @ np.linalg.lstsq(known, seen, rcond=1e-13)[0]
    observed = np.linalg.svd(seen, full_matrices=False)[2][: HALVES * rank]
    shift = np.linalg.lstsq(observed[:, :-rank].T, observed[:, rank:].T, rcond=None)[0].T
    values, left = np.linalg.eig(shift.T)
    return np.real(values), np.real(left.T @ observed)[:, :rank].T


def _scaled(
    moved: list[np.ndarray],
    inputs: list[np.ndarray],
    values: np.ndarray,
    directions: np.ndarray,
    omega: np.ndarray,
) -> tuple[np.ndarray, float]:
    """q_j: the directions with their lengths, by least squares; and the relative misfit."""
    lengths = np.maximum(np.linalg.norm(directions, axis=0), 1e-300)
    unit = directions / lengths
    codes, many = len(moved[0]), len(values)
    projections = [one @ unit for one in inputs]  # codes × 2R
    # states d_j,s = λ d_j,s−1 + g_j v·w: of the loads nothing is asked, so they are projected out
    responses = np.zeros((len(moved), many, codes))
    for s in range(1, len(moved)):
        responses[s] = values[:, None] * responses[s - 1] + projections[s - 1].T
    free = np.vstack([(unit * values ** (s + 1)) for s in range(len(moved))])  # RS × 2R
    basis = np.linalg.qr(free)[0]
    seen = np.vstack([one.T for one in moved])  # RS × codes
    columns = []
    for j in range(many):
        made = np.vstack(
            [-values[j] * np.outer(unit[:, j], responses[s, j]) for s in range(len(moved))]
        )
        columns.append((made - basis @ (basis.T @ made)).ravel())
    target = (seen - basis @ (basis.T @ seen)).ravel()
    sums = np.column_stack([np.outer(w, w).ravel() for w in unit.T])
    size = max(float(np.linalg.norm(target)), 1e-300) / max(float(np.linalg.norm(omega)), 1e-300)
    left = np.vstack([np.column_stack(columns), size * sums])
    right = np.concatenate([target, size * np.diag(omega).ravel()])
    found, *_ = np.linalg.lstsq(left, right, rcond=None)
    misfit = float(np.linalg.norm(left @ found - right)) / max(float(np.linalg.norm(right)), 1e-300)
    return unit * np.sqrt(np.maximum(found, 0.0)), misfit


def _split(scaled: np.ndarray) -> tuple[list[int], float]:
    """The half of the directions whose Σqqᵀ is most nearly diagonal, and how far it is from it."""
    rank, many = scaled.shape
    rows, columns = np.triu_indices(rank, 1)
    apart = (scaled[rows] * scaled[columns]).T  # 2R × pairs
    size = max(float((scaled**2).sum()), 1e-300)
    best, least = list(range(rank)), np.inf
    tries = combinations(range(1, many), rank - 1)  # the first is in the first half
    while chunk := list(islice(tries, 20_000)):
        chosen = np.zeros((len(chunk), many))
        chosen[:, 0] = 1.0
        np.put_along_axis(chosen, np.array(chunk, dtype=np.int64).reshape(len(chunk), -1), 1.0, 1)
        off = np.linalg.norm(chosen @ apart, axis=1)
        n = int(off.argmin())
        if off[n] < least:
            best, least = [0, *chunk[n]], float(off[n])
    return best, least / size
