"""Components pulled towards the codes a user has in mind: η Σ_{r guided} (1 − s_rᵀa_r)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tripheno.solver.penalty import Penalty


@dataclass(frozen=True)
class Guidance(Penalty):
    """η, on the scale of Ψ, and the guides' unit columns, zero where a component has none."""

    pull: float
    guide: np.ndarray

    def value(self, unit: np.ndarray) -> float:
        """η Σ (1 − cosine)."""
        guided = self.guide.any(axis=0)
        return self.pull * float((guided - (self.guide * unit).sum(axis=0)).sum())

    def gradient(self, unit: np.ndarray, *, nonnegative: bool) -> np.ndarray:
        """Away from the guide, less the part that only changes lengths."""
        del nonnegative
        turned = self.guide - unit * (self.guide * unit).sum(axis=0)
        return np.asarray(-self.pull * turned)

    def stiffness(self, unit: np.ndarray) -> np.ndarray:
        """η for every column."""
        return np.full(unit.shape[1], self.pull)
