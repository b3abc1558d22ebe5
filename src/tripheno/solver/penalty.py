"""One term that Ψ adds to the misfit of a feature factor.

A further one is a file with these answers and a line in `penalties`; `testing.penalty_contract` is
what it must keep. A term depends on the directions of columns, never on their lengths, and all is
asked at columns of unit length.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np


class Penalty(ABC):
    """Sparsity, distinctness, the pull of a guide, or one of your own."""

    shrinkage = 0.0  # what every entry is shortened by: the proximal step of an L1 term

    @abstractmethod
    def value(self, unit: np.ndarray) -> float:
        """What Ψ adds."""

    @abstractmethod
    def gradient(self, unit: np.ndarray, *, nonnegative: bool) -> np.ndarray:
        """Its derivative, lengths given back; where an entry is zero, towards growing it."""

    @abstractmethod
    def stiffness(self, unit: np.ndarray) -> np.ndarray:
        """How fast the gradient turns with each column."""

    def linear(self, unit: np.ndarray) -> np.ndarray:
        """What it adds to P of the small problem: the direction in which it falls.

        A term that the step solves for exactly has already shortened the columns there, and answers
        with what makes the solved-for length one again.
        """
        return -self.gradient(unit, nonnegative=True)

    def refined(
        self,
        factor: np.ndarray,
        quadratic: np.ndarray,
        target: np.ndarray,
        current: np.ndarray,
        *,
        nonnegative: bool,
    ) -> np.ndarray:
        """The solution of the small problem with this term in it, from the one without.

        Most terms need none: `linear` stands for them, and the step is shortened until Ψ falls.
        """
        del quadratic, target, current, nonnegative
        return factor
