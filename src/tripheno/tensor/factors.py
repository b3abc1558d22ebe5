"""Feature factors: unit columns, readable signs, a fixed order; and matching two sets of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment

from tripheno.errors import BadShape

CUMULATIVE_SHARE = 0.8  # a phenotype's codes are shown until they hold this share of its weight
MOST_CODES = 10
ALIKE = 9  # digits by which one similarity is larger than another

Factors = Sequence[np.ndarray] | Mapping[str, np.ndarray]


def unit_columns(factor: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A D⁻¹ and D: columns of length one and the lengths. An empty column keeps the length 1."""
    lengths = column_lengths(factor)
    lengths = np.where(lengths > 0.0, lengths, 1.0)
    return factor / lengths, lengths


def column_lengths(factor: np.ndarray) -> np.ndarray:
    """‖a_r‖ of every column, in one pass."""
    return np.asarray(np.sqrt(np.einsum("ir,ir->r", factor, factor)))


def gram_of_others(factors: Sequence[np.ndarray], mode: int | None = None) -> np.ndarray:
    """ΠᵀΠ: the elementwise product of the Gram matrices of all factors but one."""
    rank = factors[0].shape[1]
    gram = np.ones((rank, rank))
    for n, factor in enumerate(factors):
        if n != mode:
            gram = gram * (factor.T @ factor)
    return gram


def readable_signs(factor: np.ndarray) -> np.ndarray:
    """±1 per column, such that each column's largest entry becomes positive."""
    top = np.abs(factor).argmax(axis=0)
    signs = np.sign(factor[top, np.arange(factor.shape[1])])
    return np.where(signs == 0.0, 1.0, signs)


def leading_positions(column: np.ndarray) -> np.ndarray:
    """Where a component's largest weights stand, until they hold most of the column."""
    magnitude = np.abs(column)
    order = np.argsort(-magnitude, kind="stable")[:MOST_CODES]
    before = np.cumsum(magnitude[order]) - magnitude[order]
    shown = (magnitude[order] > 0.0) & (before < CUMULATIVE_SHARE * math.fsum(magnitude))
    return np.asarray(order[shown])


class Match(NamedTuple):
    """Component i of the first set goes with component ``other[i]`` of the second."""

    other: np.ndarray
    similarity: np.ndarray


def similarity_matrix(first: Factors, second: Factors) -> np.ndarray:
    """Π over modes of |cosine| for every pair of components, weights ignored."""
    ours, theirs = _paired(first, second)
    product = np.ones((ours[0].shape[1], theirs[0].shape[1]))
    for a, b in zip(ours, theirs, strict=True):
        product *= np.abs(unit_columns(a)[0].T @ unit_columns(b)[0])
    return np.minimum(product, 1.0)


def best_pairs(similarity: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows and their columns with the largest total (Hungarian method), whatever round-off.

    Components that coincide are as alike to any other: of equals the first is taken everywhere.
    """
    rows, columns = linear_sum_assignment(np.round(similarity, ALIKE), maximize=True)
    return np.asarray(rows), np.asarray(columns)


def match_components(first: Factors, second: Factors) -> Match:
    """The one-to-one matching of components with the largest total similarity.

    One permutation serves all modes. When the ranks differ, the surplus components stay unmatched
    (−1, similarity 0).
    """
    similarity = similarity_matrix(first, second)
    rows, columns = best_pairs(similarity)
    other = np.full(len(similarity), -1)
    score = np.zeros(len(similarity))
    other[rows], score[rows] = columns, similarity[rows, columns]
    return Match(other, score)


def factor_match_score(first: Factors, second: Factors) -> float:
    """FMS: mean over matched components of the product over feature modes of |cosine|.

    1 means the same phenotypes, whatever their order, sign and scale.
    """
    match = match_components(first, second)
    return float(match.similarity[match.other >= 0].mean())


def _paired(first: Factors, second: Factors) -> tuple[list[np.ndarray], list[np.ndarray]]:
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        if set(first) != set(second):
            raise BadShape(f"factors of modes {sorted(first)} and {sorted(second)}")
        ours, theirs = list(first.values()), [second[mode] for mode in first]
    elif isinstance(first, Mapping) or isinstance(second, Mapping):
        raise BadShape("give both sets of factors as mappings, or both as lists")
    else:
        ours, theirs = list(first), list(second)
    if [len(a) for a in ours] != [len(b) for b in theirs]:
        raise BadShape("the two sets of factors have modes of different sizes")
    return ours, theirs
