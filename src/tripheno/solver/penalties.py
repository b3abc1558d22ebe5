"""What a feature factor is asked to be besides a good fit: the server's small problem per mode.

    minimise over A:  ½ tr(A Q Aᵀ) − ⟨P, A⟩ + γ‖A‖₁ + (λ/2)‖I − BᵀA‖²,  A ≥ 0 where asked

Both methods end in this problem. `exact` has Q = 2ΣG_k, P = 2ΣM_k; `trip` has a multiple of I and
the sum of the hospitals' proposals. B is the factor that A is to be distinct from (its other half).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tripheno.solver.settings import Constraint
from tripheno.tensor.factors import unit_columns
from tripheno.tensor.rows import solve_rows

MAJORISE_STEPS = 10
COLUMN_SWEEPS = 3


@dataclass(frozen=True)
class FactorPenalty:
    """Constraint, L1 weight γ and distinctness weight λ, all on the scale of Ψ."""

    constraint: Constraint
    sparsity: float = 0.0  # γ
    distinctness: float = 0.0  # λ
    bias: bool = False  # the last column is a bias: it need not be distinct from anything
    pull: float = 0.0  # η
    guide: np.ndarray | None = None  # unit columns that guided components are pulled towards

    @property
    def nonnegative(self) -> bool:
        """Whether entries below zero are ruled out."""
        return self.constraint != "none"

    def value(self, factor: np.ndarray, *, distinct: bool = True) -> float:
        """What Ψ adds to the misfit, of the unit columns.

        γ Σ‖a_r‖₁ + (λ/2) Σ_{r≠s} (a_rᵀa_s)² + η Σ_{r guided} (1 − s_rᵀa_r)
        """
        columns, _ = unit_columns(factor)
        total = self.sparsity * float(np.abs(columns).sum())
        if distinct and self.distinctness:
            phenotypes = columns[:, : columns.shape[1] - int(self.bias)]
            overlap = phenotypes.T @ phenotypes
            np.fill_diagonal(overlap, 0.0)
            total += 0.5 * self.distinctness * float((overlap**2).sum())
        if self.guide is not None:
            guided = self.guide.any(axis=0)
            total += self.pull * float((guided - (self.guide * columns).sum(axis=0)).sum())
        return total

    def gradient(self, unit: np.ndarray) -> np.ndarray:
        """∇value at columns of unit length; where an entry is zero, towards growing it."""
        sign = 1.0 if self.nonnegative else np.sign(unit)
        found = self.sparsity * sign - self.given_back(unit)
        if self.distinctness:
            phenotypes = unit.shape[1] - int(self.bias)
            overlap = unit[:, :phenotypes].T @ unit[:, :phenotypes]
            np.fill_diagonal(overlap, 0.0)
            found[:, :phenotypes] += 2.0 * self.distinctness * unit[:, :phenotypes] @ overlap
        return np.asarray(found)

    def stiffness(self, unit: np.ndarray) -> np.ndarray:
        """How fast the gradient of the value turns with a column, at columns of unit length."""
        turning = self.sparsity * np.abs(unit).sum(axis=0)
        if self.distinctness:
            turning = turning + 2.0 * self.distinctness
        return np.asarray(2.0 * turning + self.pull * float(self.guide is not None))

    def given_back(self, unit: np.ndarray) -> np.ndarray:
        """The part of −∇value that only lengthens columns, at columns of unit length.

        The value does not depend on a column's length, but the terms solved for do: they shorten
        it at every step. Adding this to the linear term makes the solved-for length one again. The
        pull of a guide, s_r, comes in here too, without what it would lengthen.
        """
        length = self.sparsity * np.abs(unit).sum(axis=0)
        if self.distinctness:
            phenotypes = unit.shape[1] - int(self.bias)
            overlap = unit[:, :phenotypes].T @ unit[:, :phenotypes]
            np.fill_diagonal(overlap, 0.0)
            length[:phenotypes] += 2.0 * self.distinctness * (overlap**2).sum(axis=0)
        if self.guide is None:
            return np.asarray(unit * length)
        # towards the guide, less the part of it that only lengthens the column
        turned = self.guide - unit * (self.guide * unit).sum(axis=0)
        return np.asarray(unit * length + self.pull * turned)

    def minimise(
        self,
        quadratic: np.ndarray,
        linear: np.ndarray,
        apart_from: np.ndarray | None = None,
        weight: float = 0.0,
    ) -> np.ndarray:
        """The A of the problem above; ``apart_from`` is B and ``weight`` the λ in front of it."""
        target = linear - self.sparsity
        if apart_from is None or weight == 0.0:
            diagonal = np.diagonal(quadratic)
            if np.array_equal(quadratic, np.diag(diagonal)):  # as in `trip`: no row to solve
                lowest = 0.0 if self.nonnegative else -np.inf
                return np.asarray(np.maximum(target / diagonal, lowest))
            return solve_rows(target, quadratic, nonnegative=self.nonnegative)
        other = apart_from.copy()
        if self.bias:
            other[:, -1] = 0.0  # the bias keeps apart from nothing, and nothing from it
        if not self.nonnegative:
            return solve_sylvester(quadratic, target + weight * other, other, weight)
        return self._majorise(quadratic, target + weight * other, other, weight)

    def minimise_distinct(
        self, quadratic: np.ndarray, linear: np.ndarray, current: np.ndarray
    ) -> np.ndarray:
        """The same problem with A its own other half: Ψ itself, column by column.

        For one column the overlap with the others is a quadratic, λ aᵀCCᵀa, so nothing need be
        split. Signed columns take the joint solution with B = A instead (stationary for λ' = 2λ).
        """
        if not self.distinctness:
            return self.minimise(quadratic, linear)
        if not self.nonnegative:
            return self.minimise(quadratic, linear, current, 2.0 * self.distinctness)
        factor = self.minimise(quadratic, linear)
        phenotypes = factor.shape[1] - int(self.bias)
        target = linear - self.sparsity
        for _ in range(COLUMN_SWEEPS):
            for r in range(phenotypes):
                others = np.delete(factor[:, :phenotypes], r, axis=1)
                others = unit_columns(others)[0]
                rest = target[:, r] - factor @ quadratic[:, r] + factor[:, r] * quadratic[r, r]
                weight = 2.0 * self.distinctness
                bound = weight * float(np.linalg.eigvalsh(others.T @ others)[-1])
                column = factor[:, r]
                for _ in range(MAJORISE_STEPS):
                    pull = bound * column - weight * others @ (others.T @ column)
                    column = np.maximum(rest + pull, 0.0) / (quadratic[r, r] + bound)
                factor[:, r] = column
        return factor

    def _majorise(
        self, quadratic: np.ndarray, rhs: np.ndarray, other: np.ndarray, weight: float
    ) -> np.ndarray:
        """Rows coupled by λBBᵀ, decoupled by the bound λBBᵀ ≼ L I; each step is a row solve."""
        bound = weight * float(np.linalg.eigvalsh(other.T @ other)[-1])
        raised = quadratic + bound * np.eye(len(quadratic))
        factor = other
        for _ in range(MAJORISE_STEPS):
            pull = bound * factor - weight * other @ (other.T @ factor)
            factor = solve_rows(rhs + pull, raised, nonnegative=True, guess=factor)
        return factor


def solve_sylvester(
    quadratic: np.ndarray, rhs: np.ndarray, other: np.ndarray, weight: float
) -> np.ndarray:
    """λBBᵀA + AQ = P: diagonalise Q, then one Woodbury solve (R × R) per column.

    (λBBᵀ + qI)⁻¹ p = (p − B (q/λ I + BᵀB)⁻¹ Bᵀp) / q
    """
    eigenvalues, vectors = np.linalg.eigh(quadratic)
    turned = rhs @ vectors
    small = other.T @ other
    projected = other.T @ turned
    systems = eigenvalues[:, None, None] / weight * np.eye(len(small)) + small
    inner = np.linalg.solve(systems, projected.T[:, :, None])[:, :, 0].T
    return np.asarray(((turned - other @ inner) / eigenvalues) @ vectors.T)
