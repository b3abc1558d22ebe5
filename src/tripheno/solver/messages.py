"""Everything the solvers send. Shapes follow from mode sizes and rank, never from patients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from tripheno.exchange.messages import Broadcast, Contribution, Message

REVIEW = (
    "squared_error",
    "squared_error_nonzeros",
    "primal",
    "local_norm",
    "dual_norm",
    "singular",
)


@dataclass(frozen=True)
class Begin(Broadcast):
    """Start, or start again: every feature factor as it stands."""

    factors: tuple[np.ndarray, ...]


@dataclass(frozen=True)
class Totals(Contribution):
    """What a hospital's tensor amounts to: ‖O_k‖², cells, patients."""

    squared_norm: float
    nonzeros: float
    patients: float

    @classmethod
    def zeros(cls) -> Self:
        """An empty sum."""
        return cls(0.0, 0.0, 0.0)


@dataclass(frozen=True)
class FactorNews(Broadcast):
    """A feature factor that just changed, and what is asked next.

    ``scale`` are the lengths taken off its columns (D): hospitals put them back on their side.
    """

    changed: int  # feature mode that changed, −1 for none
    factor: np.ndarray
    scale: np.ndarray
    asked: int  # feature mode to contribute to
    first: int  # 1 when the products with the data are to be made anew
    penalty: float  # c where penalties follow the data, else ω


@dataclass(frozen=True)
class NormalEquations(Contribution):
    """`exact`: M_k = O₍ₙ₎Π and the patients' Gram matrix, from which the server builds ΣG_k."""

    mttkrp: np.ndarray
    patient_gram: np.ndarray
    review: np.ndarray

    @classmethod
    def zeros(cls, size: int, rank: int) -> Self:
        """An empty sum."""
        return cls(np.zeros((size, rank)), np.zeros((rank, rank)), np.zeros(len(REVIEW)))


@dataclass(frozen=True)
class Proposal(Contribution):
    """`trip`: U_k = A_k ω_k − H_k, with ω_k and ω_k² per component."""

    proposal: np.ndarray
    penalty: np.ndarray
    review: np.ndarray

    @classmethod
    def zeros(cls, size: int, rank: int) -> Self:
        """An empty sum."""
        return cls(np.zeros((size, rank)), np.zeros((2, rank)), np.zeros(len(REVIEW)))


@dataclass(frozen=True)
class Review(Contribution):
    """How well the last iterate fits: the named numbers of ``REVIEW``."""

    review: np.ndarray

    @classmethod
    def zeros(cls) -> Self:
        """An empty sum."""
        return cls(np.zeros(len(REVIEW)))


@dataclass(frozen=True)
class Release(Broadcast):
    """The final feature factors, in their final order; patients are fitted once more."""

    factors: tuple[np.ndarray, ...]


@dataclass(frozen=True)
class Finish(Broadcast):
    """The order in which the components will be shown."""

    order: np.ndarray


@dataclass(frozen=True)
class Measures(Contribution):
    """The fit of the released factors: errors, the patients' Gram matrix, counts."""

    squared_error: float
    squared_error_nonzeros: float
    patient_gram: np.ndarray

    @classmethod
    def zeros(cls, rank: int) -> Self:
        """An empty sum."""
        return cls(0.0, 0.0, np.zeros((rank, rank)))


@dataclass(frozen=True)
class OwnFactors(Message):
    """`local` only, and not a sum: one hospital's own feature factors, released as they are."""

    factors: tuple[np.ndarray, ...]
    iterations: int
    converged: int  # 0 or 1
