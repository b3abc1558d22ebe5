"""Few codes a phenotype: γ Σ‖a_r‖₁."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tripheno.solver.penalty import Penalty


@dataclass(frozen=True)
class Sparsity(Penalty):
    """γ, on the scale of Ψ."""

    shrinkage: float

    def value(self, unit: np.ndarray) -> float:
        """γ Σ‖a_r‖₁."""
        return self.shrinkage * float(np.abs(unit).sum())

    def gradient(self, unit: np.ndarray, *, nonnegative: bool) -> np.ndarray:
        """γ sign(A), less the part along each column."""
        sign = np.ones_like(unit) if nonnegative else np.sign(unit)
        return np.asarray(self.shrinkage * sign - self.linear(unit))

    def stiffness(self, unit: np.ndarray) -> np.ndarray:
        """Twice the value of each column."""
        return np.asarray(2.0 * self.shrinkage * np.abs(unit).sum(axis=0))

    def linear(self, unit: np.ndarray) -> np.ndarray:
        """The length that shrinking takes."""
        return np.asarray(unit * (self.shrinkage * np.abs(unit).sum(axis=0)))
