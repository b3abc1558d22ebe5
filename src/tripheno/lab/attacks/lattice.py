"""Patients' rows out of totals over resampled patients: an attack by those who read the totals.

Replicate r of a total is Σ_i w_ri z_i over the others' patients: T = W Z, replicates × numbers.

- *Whole weights* (the usual bootstrap): the columns of W are short whole vectors in the column
  space of T. Lattice reduction finds them, and Z = W⁺T has a row for every patient.
- *Any weights*: a patient's z_i is zero at every code the patient lacks. Where there are as many
  replicates as patients, the row space of T holds every z_i, and guessing a few of its zeros is
  enough to have the rest.
"""

from __future__ import annotations

from itertools import product

import numpy as np

FAR = 1e6  # how much leaving the column space costs, against one unit of length
DELTA = 0.99
CLOSE = 1e-3  # relative: a row as near as this is recovered
GUESSES = 150
TINY = 1e-9  # relative: less is round-off
MOST_CLAIMED = 2  # rows for each patient, of which some are mixtures
MOST_COMBINED = 8  # basis vectors whose ±1 combinations are all tried


def reduced(basis: np.ndarray) -> np.ndarray:
    """An LLL-reduced basis of the lattice that the rows of ``basis`` make, in floating point."""
    found = np.array(basis, dtype=np.float64)
    n, k = len(found), 1
    while k < n:
        q, r = np.linalg.qr(found[: k + 1].T)
        for j in range(k - 1, -1, -1):
            found[k] -= np.rint(found[k] @ q[:, j] / r[j, j]) * found[j]
        after = np.linalg.norm(found[k] - q[:, : k - 1] @ (q[:, : k - 1].T @ found[k]))
        if after**2 >= DELTA * r[k - 1, k - 1] ** 2 or abs(after) < 1e-12:
            k += 1
        else:
            found[[k - 1, k]] = found[[k, k - 1]]
            k = max(k - 1, 1)
    return found


def whole_weights(totals: np.ndarray, patients: int) -> np.ndarray | None:
    """Columns of W that are small whole numbers, none below zero; nothing where there are none."""
    replicates = len(totals)
    left = np.linalg.svd(totals, full_matrices=True)[0]
    outside = left[:, patients:]  # what a column of W has nothing of
    basis = np.hstack([np.eye(replicates), FAR * outside])
    short = np.rint(reduced(basis)[:, :replicates])
    inside = [row for row in short if np.abs(row @ outside).max(initial=0.0) < CLOSE and row.any()]
    if len(inside) < patients:
        return None
    found = {}
    for signs in product((-1.0, 0.0, 1.0), repeat=min(len(inside), MOST_COMBINED)):
        column = np.array(signs) @ np.array(inside[: len(signs)])
        if column.any() and column.min() >= 0.0:
            found[tuple(column)] = float(column @ column)
    columns: list[tuple[float, ...]] = []
    for column in sorted(found, key=lambda one: found[one]):
        if np.linalg.matrix_rank(np.array([*columns, column])) > len(columns):
            columns.append(column)
        if len(columns) == patients:
            return np.array(columns).T
    return None


def by_whole_weights(totals: np.ndarray, patients: int) -> np.ndarray:
    """Rows that the lattice attack claims patients have."""
    weights = whole_weights(totals, patients)
    return np.zeros((0, totals.shape[1])) if weights is None else np.linalg.pinv(weights) @ totals


def whole_row(mixing: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """Small whole numbers c with c·mixing = seen, as near as lattice reduction finds them."""
    unknown, equations = mixing.shape
    basis = np.zeros((unknown + 1, unknown + 1 + equations))
    basis[:unknown, :unknown] = np.eye(unknown)
    basis[unknown, unknown] = 1.0
    basis[:, unknown + 1 :] = FAR * np.vstack([mixing, -seen])
    for row in reduced(basis):
        if abs(abs(row[unknown]) - 1.0) < 0.5:
            return np.asarray(np.rint(row[:unknown] * np.sign(row[unknown])))
    return np.zeros(unknown)


def by_guessed_zeros(
    totals: np.ndarray, codes: np.ndarray, patients: int, rng: np.random.Generator
) -> np.ndarray:
    """Rows, up to their length, in the row space of T that vanish at as many codes as can be.

    ``codes`` says which code a number belongs to. Codes are gone through in random order: what is
    left of the space is made to vanish at each, unless nothing would be left.
    """
    _, sizes, right = np.linalg.svd(totals, full_matrices=False)
    span = right[sizes > TINY * sizes[0]]
    blocks = [span[:, codes == code].T for code in np.unique(codes)]
    found: list[np.ndarray] = []
    for _ in range(GUESSES):
        left = np.eye(len(span))
        for n in rng.permutation(len(blocks)):
            if left.shape[1] == 1:
                break
            _, small, turn = np.linalg.svd(blocks[n] @ left)
            rank = int((small > TINY).sum())
            left = left @ turn[rank:].T if rank < left.shape[1] else left
        row = left[:, 0] @ span
        if left.shape[1] == 1 and not any(_alike(row, one) for one in found):
            found.append(row)
        if len(found) == MOST_CLAIMED * patients:
            break
    return np.array(found).reshape(-1, totals.shape[1])


def recovered(claimed: np.ndarray, true: np.ndarray) -> float:
    """Which share of the true rows is among the claimed ones, up to their length.

    A claimed row that is like two patients' is a mixture, and tells of neither.
    """
    hits: set[int] = set()
    for row in claimed:
        like = [n for n, one in enumerate(true) if _alike(row, one)]
        hits.update(like if len(like) == 1 else [])
    return len(hits) / len(true)


def _alike(a: np.ndarray, b: np.ndarray) -> bool:
    sizes = float(np.linalg.norm(a) * np.linalg.norm(b))
    return sizes > 0.0 and abs(float(a @ b)) > (1.0 - CLOSE**2) * sizes
