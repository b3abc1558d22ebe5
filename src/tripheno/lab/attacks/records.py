"""Whole records of a small hospital out of its MTTKRP.

Where every patient has one visit, row c of M_k is Σ w_i over the patients i who have code c, with
w_i = a_i ∘ Σ_j b_j: M_k = E·W, and E has a 1 where patient i has code c. E is binary and has as
many columns as there are patients. Every binary vector in the column space of M_k is found by
trying all 0/1 values at as many rows as there are patients: 2¹⁰ for ten.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np
from scipy.linalg import qr
from scipy.optimize import linear_sum_assignment

from tripheno.lab.attacks.equations import Reconstruction
from tripheno.tensor.count_tensor import CountTensor

LARGEST = 10  # patients up to which all guesses are tried
NEAR = 1e-3  # from a whole number
EXACT = 1e-6  # two modes that fit together as well as this belong together

Record = tuple[frozenset[int], ...]
"""A patient's codes: positions by feature mode."""


@dataclass(frozen=True)
class Reconstructed:
    """Records that the server claims a hospital has, and codes it claims one patient has."""

    records: tuple[Record, ...]
    single: tuple[frozenset[int], ...]  # by mode: positions of codes of one patient


def records_of(tensor: CountTensor) -> tuple[Record, ...]:
    """The truth: every patient's codes."""
    indices, _ = tensor.coordinates()
    return tuple(
        tuple(frozenset(indices[indices[:, 0] == i, n + 1].tolist()) for n in range(2))
        for i in range(tensor.patients)
    )


def one_visit_each(tensor: CountTensor) -> np.ndarray:
    """Patients whose cells are one visit: every medication with every diagnosis, once."""
    indices, values = tensor.coordinates()
    found = []
    for i in range(tensor.patients):
        cells = indices[:, 0] == i
        sizes = [len(np.unique(indices[cells, n + 1])) for n in range(len(tensor.axes))]
        if cells.any() and (values[cells] == 1).all() and cells.sum() == np.prod(sizes):
            found.append(i)
    return np.array(found, dtype=np.int64)


Reading = tuple[list[frozenset[int]], np.ndarray]
"""E as sets of codes, one a patient, and W."""


def reconstruct(first: Reconstruction, second: Reconstruction) -> Reconstructed:
    """Records from the products of both feature modes in one iteration.

    Where one patient's codes are a part of another's, a mode alone has several readings. From the
    simplest one, the best next one is taken as long as the two modes fit together better.
    """
    products = (first.mttkrp, second.mttkrp)
    start = [_simplest(matrix) for matrix in products]
    readings = [one for one in start if one is not None]
    records: tuple[Record, ...] = ()
    if len(readings) == 2 and len(readings[0][0]) == len(readings[1][0]):
        cost, records = _fitted(readings, first, second)
        while cost > EXACT:
            tries = [
                [other if m == n else one for m, one in enumerate(readings)]
                for n, reading in enumerate(readings)
                for other in _nested(reading, products[n])
            ]
            fits = [_fitted(tried, first, second) for tried in tries]
            best = min(range(len(fits)), key=lambda n: fits[n][0], default=0)
            if not fits or fits[best][0] >= cost:
                break
            (cost, records), readings = fits[best], tries[best]
    single = tuple(
        _single([record[n] for record in records], len(matrix)) for n, matrix in enumerate(products)
    )
    return Reconstructed(records, single)


def _fitted(
    readings: list[Reading], first: Reconstruction, second: Reconstruction
) -> tuple[float, tuple[Record, ...]]:
    """How well two modes fit together, patient by patient (0 is exact), and their pairs.

    w = a ∘ Σb over the diagnoses, v = a ∘ Σa over the medications: each times the other's sum.
    """
    (drugs, drug_weights), (diseases, disease_weights) = readings
    left = drug_weights * _sums(second.features[0], drugs)
    right = disease_weights * _sums(first.features[1], diseases)
    apart = np.linalg.norm(left[:, None] - right[None], axis=2)
    largest = np.linalg.norm(left, axis=1)[:, None] + np.linalg.norm(right, axis=1)[None]
    apart = apart / (largest + 1e-300)
    rows, columns = linear_sum_assignment(apart)
    pairs = tuple((drugs[i], diseases[j]) for i, j in zip(rows, columns, strict=True))
    return float(apart[rows, columns].sum()), pairs


def _sums(factor: np.ndarray, sets: list[frozenset[int]]) -> np.ndarray:
    return np.array([factor[sorted(codes)].sum(axis=0) for codes in sets])


def _single(members: list[frozenset[int]], size: int) -> frozenset[int]:
    counts = np.zeros(size, dtype=int)
    for codes in members:
        counts[sorted(codes)] += 1
    return frozenset(np.flatnonzero(counts == 1).tolist())


def _simplest(matrix: np.ndarray) -> Reading | None:
    """E and W of M = E·W with the smallest binary E; nothing for a matrix of noise."""
    if not np.isfinite(matrix).all():
        return None
    values = np.linalg.svd(matrix, compute_uv=False)
    rank = int((values > 1e-6 * values[0]).sum())
    if not 1 <= rank <= min(LARGEST, matrix.shape[1] - 1):
        return None
    chosen: list[np.ndarray] = []
    for column in _binary_columns(matrix, rank):
        if np.linalg.matrix_rank(np.array([*chosen, column])) > len(chosen):
            chosen.append(column)
    if len(chosen) < rank:
        return None
    return _reading([frozenset(np.flatnonzero(column).tolist()) for column in chosen], matrix)


def _reading(sets: list[frozenset[int]], matrix: np.ndarray) -> Reading:
    incidence = np.zeros((len(matrix), len(sets)))
    for n, codes in enumerate(sets):
        incidence[sorted(codes), n] = 1.0
    return sets, np.linalg.lstsq(incidence, matrix, rcond=None)[0]


def _nested(reading: Reading, matrix: np.ndarray) -> Iterator[Reading]:
    """Readings in which one patient has another's codes beside its own."""
    sets, _ = reading
    for i, codes in enumerate(sets):
        for other in sets:
            if not codes & other:
                yield _reading([codes | other if n == i else s for n, s in enumerate(sets)], matrix)


def _binary_columns(matrix: np.ndarray, rank: int) -> list[np.ndarray]:
    """Binary vectors in the column space, the smallest first: unions of patients come last."""
    pivots = qr(matrix.T, pivoting=True, mode="economic")[2][:rank]
    basis = matrix @ np.linalg.pinv(matrix[pivots], rcond=1e-9)
    guesses = np.array(list(product((0.0, 1.0), repeat=rank)))[1:]
    columns = basis @ guesses.T
    rounded = np.rint(columns)
    binary = (np.abs(columns - rounded) < NEAR).all(axis=0) & np.isin(rounded, (0, 1)).all(axis=0)
    return sorted((rounded[:, n] for n in np.flatnonzero(binary)), key=lambda e: float(e.sum()))
