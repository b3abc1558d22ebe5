"""Where a fit may begin: rows that hang on seed and code, and the sketch of who occurs with whom.

Every hospital makes the same starts for itself. A code's numbers come from a hash of the study's
seed, its mode and the code, so another order of codes, or codes that are left out, change nothing.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from tripheno.errors import TriphenoWarning
from tripheno.exchange.registry import SKETCH_MORE
from tripheno.solver.guides import guide_columns
from tripheno.solver.settings import SolverSettings
from tripheno.tensor.count_tensor import CountTensor
from tripheno.tensor.factors import unit_columns
from tripheno.tensor.shards import at_shards
from tripheno.vocabulary.axis import Axis

Factors = tuple[np.ndarray, ...]

ROTATIONS = 300  # steps from a rotation to a non-negative factor
KEPT = 128  # sets of random numbers: those of one tournament over a few modes
TOUCH = 1e-3  # of a column's mean: what a sketched start gives to codes it would leave at zero
HIDDEN = 1e-3  # of a column's length: with less above zero it is turned round
HELD = 1e-4  # of the longest direction: what holds those that W does not show


def uniform_rows(axis: Axis, columns: int, seed: object) -> np.ndarray:
    """Numbers between 0 and 1, codes × columns, each row from the seed and its own code."""
    return _uniform_rows(axis.mode, tuple(axis.keys), columns, str(seed))


@lru_cache(maxsize=KEPT)  # every fit on the same axes begins with the same numbers
def _uniform_rows(mode: str, keys: tuple[object, ...], columns: int, seed: str) -> np.ndarray:
    begin = f"{seed}|{mode}|"
    rows = b"".join(hashlib.shake_128(f"{begin}{key}".encode()).digest(8 * columns) for key in keys)
    words = np.frombuffer(rows, dtype="<u8").reshape(len(keys), columns)
    found = np.asarray((words >> 11) * 2.0**-53)
    found.flags.writeable = False
    return found


def uniform_start(axes: Sequence[Axis], rank: int, seed: int, number: int = 0) -> Factors:
    """Start ``number`` of a seed: uniform columns of unit length."""
    return tuple(unit_columns(uniform_rows(a, rank, f"{seed}|start {number}"))[0] for a in axes)


def first_factors(axes: Sequence[Axis], settings: SolverSettings) -> Factors:
    """The common start: uniform random columns of unit length; a bias column is flat.

    A row hangs on the seed and its code (its token, where codes are not shown), never on the order
    of codes. Guided components start from their codes where they have some. The patients are fitted
    before anything else, and that gives the model its scale.
    """
    factors = []
    for axis in axes:
        factor = uniform_rows(axis, settings.n_components, settings.seed)
        if settings.bias:
            factor = np.column_stack([factor, np.ones(axis.size)])
        factors.append(unit_columns(factor)[0])
    if not settings.guides:
        return tuple(factors)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TriphenoWarning)  # the method says what is missing
        guides = guide_columns(axes, settings.guides, settings.rank)
    return tuple(np.where(g.any(axis=0), g, f) for g, f in zip(guides, factors, strict=True))


# ── the sketch: one sum, of which every hospital makes the same starts ────────────────────────


def sketch_matrix(axes: Sequence[Axis], rank: int, seed: int) -> np.ndarray:
    """Ω: all codes of all modes × (rank + 10), centred, from the seed and the codes."""
    columns = rank + SKETCH_MORE
    parts = [uniform_rows(axis, columns, f"{seed}|sketch") for axis in axes]
    return np.vstack(parts) * 2.0 - 1.0


@at_shards("sum")
def sketch(tensor: CountTensor, omega: np.ndarray) -> np.ndarray:
    """What a hospital contributes: C_k Ω, with C_k = Σ_i w_i v_i v_iᵀ and w_i the tensor's weights.

    v_i are patient i's counts by code, all feature modes stacked. C_k itself is never made: V Ω
    first, a product with one column per test vector, then Vᵀ of it.
    """
    ones = [np.ones((axis.size, omega.shape[1])) for axis in tensor.axes]
    parts = np.split(omega, np.cumsum([axis.size for axis in tensor.axes])[:-1])
    total = np.zeros_like(omega)
    for _, piece in tensor.pieces():
        cells = piece.cells
        scores = np.zeros((piece.patients, omega.shape[1]))
        for n, part in enumerate(parts):
            scores += cells.patient_product([*ones[:n], part, *ones[n + 1 :]])
        total += np.vstack([cells.feature_product(ones, scores, n) for n in range(len(ones))])
    return total


def nystrom(total: np.ndarray, omega: np.ndarray, rank: int) -> np.ndarray:
    """L with C ≈ LLᵀ and at most ``rank`` columns, from Y = CΩ: L = Y(ΩᵀY)^(−½), cut off by SVD."""
    core = omega.T @ total
    values, vectors = np.linalg.eigh(0.5 * (core + core.T))
    kept = values > 1e-12 * max(float(values[-1]), 1e-300)
    left, lengths, _ = np.linalg.svd(
        total @ (vectors[:, kept] / np.sqrt(values[kept])), full_matrices=False
    )
    return np.asarray((left * lengths)[:, :rank])


def rotated(root: np.ndarray, rng: np.random.Generator, rank: int) -> np.ndarray:
    """W = max(LQ, 0) with the rotation Q for which LQ is nearest to W: symmetric NMF of LLᵀ.

    Q ← UVᵀ of LᵀW + εQ, some hundred times, from a random rotation; further rotations of the same
    sketch give further starts. Of a direction that W does not show (a column below zero, two
    columns of one and the same code) UVᵀ of LᵀW alone knows nothing but the machine's round-off: εQ
    leaves it where it is, and moves no Q at which LᵀW had come to rest. A column of LQ that is
    below zero is turned round first.
    """
    turn = np.linalg.qr(rng.standard_normal((max(rank, root.shape[1]),) * 2))[0]
    turn = turn[: root.shape[1], :rank]
    whole = root @ turn
    turn = np.where(
        np.maximum(whole, 0.0).sum(axis=0) < HIDDEN * abs(whole).sum(axis=0), -turn, turn
    )
    for _ in range(ROTATIONS):
        shown = root.T @ np.maximum(root @ turn, 0.0)
        held = HELD * float(np.linalg.norm(shown)) * turn
        left, _, right = np.linalg.svd(shown + held, full_matrices=False)
        turn = left @ right
    return np.asarray(np.maximum(root @ turn, 0.0))


def sketched_start(
    root: np.ndarray, axes: Sequence[Axis], rank: int, seed: int, number: int = 0
) -> Factors:
    """Start ``number`` of a sketch: the columns of W, cut into modes.

    Zeros would hold their codes back for an iteration, so each gets a trace.
    """
    rng = np.random.default_rng([seed, number, 0x536B])
    whole = rotated(root, rng, rank)
    whole = whole + TOUCH * whole.mean(axis=0)
    dead = ~whole.any(axis=0)
    parts = np.split(whole, np.cumsum([axis.size for axis in axes])[:-1])
    spare = uniform_start(axes, rank, seed, number)
    return tuple(
        unit_columns(np.where(dead, other, part))[0]
        for part, other in zip(parts, spare, strict=True)
    )
