"""Phenotypes kept apart: (λ/2) Σ_{r≠s} (a_rᵀa_s)², or λ/2‖I − BᵀA‖² with a partner B."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tripheno.solver.penalty import Penalty
from tripheno.tensor.factors import unit_columns
from tripheno.tensor.rows import solve_rows

MAJORISE_STEPS = 10
COLUMN_SWEEPS = 3


@dataclass(frozen=True)
class Distinctness(Penalty):
    """λ, on the scale of Ψ. A bias, the last column, need not be distinct from anything."""

    weight: float
    bias: bool = False

    def value(self, unit: np.ndarray) -> float:
        """(λ/2) Σ_{r≠s} (a_rᵀa_s)²."""
        return 0.5 * self.weight * float((self._overlap(unit) ** 2).sum())

    def gradient(self, unit: np.ndarray, *, nonnegative: bool) -> np.ndarray:
        """2λ A(AᵀA − I), less the part along each column."""
        del nonnegative
        return np.asarray(2.0 * self.weight * unit @ self._overlap(unit) - self.linear(unit))

    def stiffness(self, unit: np.ndarray) -> np.ndarray:
        """4λ for every column."""
        return np.full(unit.shape[1], 4.0 * self.weight)

    def linear(self, unit: np.ndarray) -> np.ndarray:
        """The length that keeping apart takes."""
        return np.asarray(unit * (2.0 * self.weight * (self._overlap(unit) ** 2).sum(axis=0)))

    def refined(
        self,
        factor: np.ndarray,
        quadratic: np.ndarray,
        target: np.ndarray,
        current: np.ndarray,
        *,
        nonnegative: bool,
    ) -> np.ndarray:
        """The factor its own partner, column by column.

        For one column the overlap with the others is a quadratic, λ aᵀCCᵀa, so nothing need be
        split. Signed columns take the joint solution with B = A instead (stationary for λ' = 2λ).
        """
        twice = 2.0 * self.weight
        if not nonnegative:
            return self.apart(quadratic, target, current, twice, nonnegative=False)
        phenotypes = factor.shape[1] - int(self.bias)
        for _ in range(COLUMN_SWEEPS):
            for r in range(phenotypes):
                others = unit_columns(np.delete(factor[:, :phenotypes], r, axis=1))[0]
                rest = target[:, r] - factor @ quadratic[:, r] + factor[:, r] * quadratic[r, r]
                bound = twice * _largest(others)
                column = factor[:, r]
                for _ in range(MAJORISE_STEPS):
                    pull = bound * column - twice * others @ (others.T @ column)
                    column = np.maximum(rest + pull, 0.0) / (quadratic[r, r] + bound)
                factor[:, r] = column
        return factor

    def apart(
        self,
        quadratic: np.ndarray,
        target: np.ndarray,
        partner: np.ndarray,
        weight: float,
        *,
        nonnegative: bool,
    ) -> np.ndarray:
        """The A of ½tr(AQAᵀ) − ⟨P, A⟩ + (weight/2)‖I − BᵀA‖²: Algorithm 1 with B given.

        Rows coupled by λBBᵀ are decoupled by the bound λBBᵀ ≼ L I; each step is a row solve.
        """
        other = partner.copy()
        if self.bias:
            other[:, -1] = 0.0  # the bias keeps apart from nothing, and nothing from it
        target = target + weight * other
        if not nonnegative:
            return solve_sylvester(quadratic, target, other, weight)
        bound, factor = weight * _largest(other), other
        raised = quadratic + bound * np.eye(len(quadratic))
        for _ in range(MAJORISE_STEPS):
            pull = bound * factor - weight * other @ (other.T @ factor)
            factor = solve_rows(target + pull, raised, nonnegative=True, guess=factor)
        return factor

    def _overlap(self, unit: np.ndarray) -> np.ndarray:
        """aᵣᵀaₛ of every two phenotypes; zero with itself, and with a bias."""
        overlap = unit.T @ unit
        np.fill_diagonal(overlap, 0.0)
        if self.bias:
            overlap[-1] = overlap[:, -1] = 0.0
        return np.asarray(overlap)


def _largest(columns: np.ndarray) -> float:
    return float(np.linalg.eigvalsh(columns.T @ columns).max(initial=0.0))


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
