"""When a fit may say that it converged: the gradient is gone and the factors stand still.

A small change of Ψ alone says neither: plateaus look like ends. All of it comes from totals.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tripheno.solver.starts import Factors
from tripheno.tensor.factors import column_lengths

QUIET = 2  # iterations in a row that must look like the end
EXACT = 1e-12  # Ψ as a share of that of no model, from which on it is round-off alone


def kkt_residual(
    factor: np.ndarray,
    gradient: np.ndarray,
    pull: np.ndarray,
    *,
    nonnegative: bool = True,
    smallest: float = 0.0,
) -> float:
    """The projected gradient of Ψ in one mode, as a share of what the data pull with.

    max_r ‖P(∇_r)‖ / ‖pull_r‖, where an entry at zero (up to ``smallest``) counts only if it wants
    to grow. ``factor`` has unit columns and is the one that the sums were made *before*: after an
    exact solve of its own mode the gradient is nothing by construction. A column without data has
    no pull and no gradient; the caller names it lost.
    """
    if nonnegative:
        gradient = np.where(factor > smallest, gradient, np.minimum(gradient, 0.0))
    length = column_lengths(pull)
    alive = length > 1e-12 * length.max(initial=0.0)
    residual = column_lengths(gradient)[alive] / length[alive]
    return float(residual.max(initial=0.0))


def movement(before: Factors, after: Factors) -> float:
    """How far the component that moved most went: 1 − Π cosines."""
    cosines = np.ones(before[0].shape[1])
    for a, b in zip(before, after, strict=True):
        lengths = column_lengths(a) * column_lengths(b)
        cosines *= np.einsum("ir,ir->r", a, b) / np.where(lengths > 0.0, lengths, 1.0)
    return float(1.0 - np.abs(cosines).min(initial=1.0))


@dataclass(frozen=True)
class Tolerances:
    """What counts as nothing."""

    objective: float = 1e-6  # relative change of Ψ
    kkt: float = 1e-3  # largest projected gradient of a column, relative
    movement: float = 1e-4  # 1 − cosine product of the component that moved most
    exact: float = 0.0  # Ψ of a perfect fit: no model is better, and spare components may wander


@dataclass(frozen=True)
class Quiet:
    """How long it has been quiet."""

    iterations: int = 0
    objective: float = np.inf

    def after(
        self, objective: float, residuals: Sequence[float], moved: float, allowed: Tolerances
    ) -> Quiet:
        """One iterate more: Ψ, the KKT residuals of all modes, the movement of the factors."""
        change = abs(self.objective - objective) / max(abs(objective), 1e-300)
        still = change < allowed.objective and max(residuals) <= allowed.kkt
        still = (still and moved <= allowed.movement) or objective <= allowed.exact
        return Quiet(self.iterations + 1 if still else 0, objective)

    @property
    def converged(self) -> bool:
        """The vote to stop; only a run that ends here may say "converged"."""
        return self.iterations >= QUIET
