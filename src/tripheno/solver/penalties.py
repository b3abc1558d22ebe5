"""What a feature factor is asked to be besides a good fit: the small problem of one mode.

    minimise over A:  ½ tr(A Q Aᵀ) − ⟨P, A⟩ + what the terms add,  A ≥ 0 where asked

Both methods end in this problem. `exact` has Q = 2ΣG_k, P = 2ΣM_k; `trip` has a multiple of I and
the sum of the hospitals' proposals. Every term is a file of its own (`penalty`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce

import numpy as np

from tripheno.solver.distinctness import Distinctness
from tripheno.solver.guidance import Guidance
from tripheno.solver.penalty import Penalty
from tripheno.solver.settings import SolverSettings
from tripheno.solver.sparsity import Sparsity
from tripheno.tensor.factors import unit_columns
from tripheno.tensor.rows import solve_rows


@dataclass(frozen=True)
class FactorPenalty:
    """The terms of one feature factor, and whether entries below zero are ruled out."""

    terms: tuple[Penalty, ...] = ()
    nonnegative: bool = True

    @property
    def distinct(self) -> Distinctness | None:
        """The term that the paper's Algorithm 1 splits in two."""
        return next((term for term in self.terms if isinstance(term, Distinctness)), None)

    def value(self, factor: np.ndarray) -> float:
        """What Ψ adds to the misfit, whatever the length of the columns."""
        if not self.terms:
            return 0.0
        unit, _ = unit_columns(factor)
        return sum((term.value(unit) for term in self.terms), 0.0)

    def gradient(self, unit: np.ndarray) -> np.ndarray:
        """∇value at columns of unit length; where an entry is zero, towards growing it."""
        return self._summed(lambda term: term.gradient(unit, nonnegative=self.nonnegative), unit)

    def stiffness(self, unit: np.ndarray) -> np.ndarray:
        """How fast the gradient of the value turns with a column, at columns of unit length."""
        return self._summed(lambda term: term.stiffness(unit), unit[0])

    def given_back(self, unit: np.ndarray) -> np.ndarray:
        """What belongs to P, at columns of unit length.

        The value does not depend on a column's length, but the terms solved for do: they shorten
        it at every step. Adding this to the linear term makes the solved-for length one again.
        """
        return self._summed(lambda term: term.linear(unit), unit)

    def minimise(self, quadratic: np.ndarray, linear: np.ndarray) -> np.ndarray:
        """The A of the problem above, terms that couple columns left out."""
        target, diagonal = self.target(linear), np.diagonal(quadratic)
        if np.array_equal(quadratic, np.diag(diagonal)):  # as in `trip`: no row to solve
            lowest = 0.0 if self.nonnegative else -np.inf
            return np.asarray(np.maximum(target / diagonal, lowest))
        return solve_rows(target, quadratic, nonnegative=self.nonnegative)

    def minimise_whole(
        self, quadratic: np.ndarray, linear: np.ndarray, current: np.ndarray
    ) -> np.ndarray:
        """The same problem with every term, from the factor as it stands."""
        target, whole = self.target(linear), self.nonnegative
        return reduce(
            lambda found, t: t.refined(found, quadratic, target, current, nonnegative=whole),
            self.terms,
            self.minimise(quadratic, linear),
        )

    def target(self, linear: np.ndarray) -> np.ndarray:
        """P less what every entry is shortened by."""
        return linear - sum(term.shrinkage for term in self.terms) if self.terms else linear

    def _summed(self, of: Callable[[Penalty], np.ndarray], like: np.ndarray) -> np.ndarray:
        return sum((of(term) for term in self.terms), np.zeros_like(like))


def penalty_of(
    settings: SolverSettings, scale: float, guide: np.ndarray | None, *, distinct: bool = True
) -> FactorPenalty:
    """The terms that settings ask of one feature mode; ``scale`` is ‖O‖²/R."""
    apart = settings.distinctness + settings.relative_distinctness * scale
    terms: list[Penalty] = []
    if settings.constraint == "sparse" and settings.sparsity:
        terms.append(Sparsity(settings.sparsity * scale))
    if distinct and apart:
        terms.append(Distinctness(apart, settings.bias))
    if guide is not None:
        terms.append(Guidance(settings.guide_pull * scale, guide))
    return FactorPenalty(tuple(terms), settings.constraint != "none")
