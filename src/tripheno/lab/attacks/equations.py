"""From a hospital's messages to its Gram matrix and MTTKRP.

A hospital solves A_k (wG_k + Ω) = wM_k + AΩ + H_k. Whoever reads its messages knows A, Ω and, step
by step, H_k; of the message U_k = A_k Ω − H_k it makes A_k. Rows of codes that the hospital lacks
have M_k = 0, and what changes between two rounds on the same M_k has none either: both give linear
equations for G_k alone, and with G_k the whole of M_k follows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from tripheno.lab.attacks.view import View
from tripheno.solver.trip import trip_rules
from tripheno.tensor.count_tensor import CountTensor
from tripheno.tensor.factors import gram_of_others
from tripheno.tensor.rows import regular


@dataclass(frozen=True)
class Reconstruction:
    """What an attacker claims to know of one hospital, for one mode of one iteration."""

    mttkrp: np.ndarray
    gram: np.ndarray
    features: tuple[np.ndarray, ...]  # the shared factors at that moment


@dataclass(frozen=True)
class _Round:
    own: np.ndarray  # A_k, as it was solved for: not lengthened
    shared: np.ndarray  # A
    dual: np.ndarray  # H_k
    omega: np.ndarray


def recover(
    view: View,
    hospital: str,
    absent: Sequence[np.ndarray],
    mode: int = 0,
    iteration: int = 2,
) -> Reconstruction:
    """M_k and G_k of a mode; ``absent`` are, by mode, positions of codes the hospital lacks."""
    first = f"fit/{iteration}/{mode}/0"
    features = _factors(view, iteration, mode)
    if view.settings.method != "trip":
        seen = view.reading(first, hospital)
        gram = seen["patient_gram"] * gram_of_others(features, mode)
        return Reconstruction(seen["mttkrp"], gram, features)
    weight = trip_rules(view.settings).data_weight
    rounds = {n: _rounds(view, hospital, n, iteration) for n in _same_patients(view, mode)}
    equations = [
        block
        for n, found in rounds.items()
        for block in _equations(found, absent[n], weight, _others(view, iteration, n))
    ]
    gram = _solved(equations) * gram_of_others(features, mode)
    start = rounds[mode][0]
    left = weight * gram + np.diag(start.omega)
    mttkrp = (start.own @ left - start.shared * start.omega - start.dual) / weight
    return Reconstruction(mttkrp, gram, features)


def _same_patients(view: View, mode: int) -> tuple[int, ...]:
    """Modes whose equations share the patients' Gram matrix: all, unless lengths move in between.

    `corrected` moves columns' lengths onto the patients between two modes.
    """
    return (mode,) if view.settings.variant == "corrected" else tuple(range(len(view.axes)))


def _others(view: View, iteration: int, mode: int) -> np.ndarray:
    return gram_of_others(_factors(view, iteration, mode), mode)


def _factors(view: View, iteration: int, mode: int) -> tuple[np.ndarray, ...]:
    return next(m.factors for m in view.snapshots if (m.iteration, m.mode) == (iteration, mode))


def _rounds(view: View, hospital: str, mode: int, iteration: int) -> list[_Round]:
    """A_k and H_k of every round on a mode in an iteration, followed from the beginning."""
    dual = own = omega = np.zeros(())
    longer = view.settings.relaxation
    found = []
    for snapshot in view.snapshots:
        news, shared = snapshot.news, snapshot.factors[mode]
        if news.changed == mode and own.ndim:
            dual = (dual + omega * (news.factor * news.scale - own)) * news.scale
            own = own / news.scale
        if snapshot.iteration > iteration:
            break
        if snapshot.mode != mode:
            continue
        seen = view.reading(snapshot.step, hospital)
        omega = seen["penalty"][0]
        dual = dual if dual.ndim else np.zeros_like(seen["proposal"])
        own = (seen["proposal"] + dual) / omega
        if snapshot.iteration == iteration:
            found.append(_Round((own - (1 - longer) * shared) / longer, shared, dual, omega))
    return found


Equations = tuple[np.ndarray, np.ndarray, np.ndarray]
"""L, F and Y of L (S ∘ F) = Y, for the patients' Gram matrix S."""


def _equations(
    rounds: list[_Round], absent: np.ndarray, weight: float, others: np.ndarray
) -> Iterator[Equations]:
    """On absent rows, and on all rows between two rounds: w A_k (S ∘ F) = (A − A_k)Ω + H_k."""
    for one in rounds:
        right = (one.shared - one.own) * one.omega + one.dual
        yield weight * one.own[absent], others, right[absent]
    for before, after in pairwise(rounds):
        moved = after.own - before.own
        right = (after.shared - before.shared - moved) * after.omega + after.dual - before.dual
        yield weight * moved, others, right


def _solved(equations: Sequence[Equations]) -> np.ndarray:
    """The symmetric S that fits all equations best, each block on its own scale."""
    rank = equations[0][1].shape[0]
    rows, columns = np.triu_indices(rank)
    place = np.zeros((rank, rank), dtype=np.int64)
    place[rows, columns] = place[columns, rows] = np.arange(len(rows))
    left, right = [], []
    for factor, others, known in equations:
        if not factor.size:
            continue
        block = np.zeros((len(factor), rank, len(rows)))
        for r in range(rank):
            block[:, r, place[:, r]] = factor * others[:, r]
        scale = float(np.abs(block).max()) or 1.0
        left.append(block.reshape(-1, len(rows)) / scale)
        right.append(known.ravel() / scale)
    solved = np.linalg.lstsq(np.vstack(left), np.concatenate(right), rcond=None)[0]
    return np.asarray(solved[place])


def truth(
    tensor: CountTensor, features: tuple[np.ndarray, ...], *, nonnegative: bool
) -> tuple[np.ndarray, np.ndarray]:
    """M_k and G_k of the first feature mode as the hospital has them, to compare with."""
    gram, _ = regular(gram_of_others(features))
    patients, mttkrp = tensor.cells.update_patients(
        features, gram, nonnegative=nonnegative, guess=None
    )
    return mttkrp, (patients.T @ patients) * gram_of_others(features, 0)


def relative_error(found: np.ndarray, true: np.ndarray) -> float:
    """‖found − true‖ / ‖true‖; infinite when it is not a number."""
    error = float(np.linalg.norm(found - true)) / max(float(np.linalg.norm(true)), 1e-300)
    return error if np.isfinite(error) else float("inf")
