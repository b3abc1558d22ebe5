"""Squared loss, ‖X − O‖²: normal equations, solved exactly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tripheno.solver.loss import Loss, Sums
from tripheno.solver.penalties import FactorPenalty
from tripheno.solver.stacked import (
    StackedEquations,
    fit_patients,
    misfit,
    normal_equations,
    penalised_solve,
    unit_of,
)
from tripheno.solver.starts import Factors
from tripheno.tensor.count_tensor import CountTensor
from tripheno.tensor.factors import gram_of_others
from tripheno.tensor.rows import regular, solve_rows

RIDGE = 0.1  # of the mean of diag ΠᵀΠ: memberships from few seen codes must not explode


@dataclass(frozen=True)
class SquaredLoss(Loss):
    """A contribution is M_k and A_kᵀWA_k."""

    nonnegative: bool = True

    def null(self, tensor: CountTensor) -> float:
        """‖O‖²: the model is zero."""
        return tensor.squared_norm

    def fit_patients(
        self,
        tensor: CountTensor,
        models: Sequence[Factors],
        before: Sequence[np.ndarray] | None = None,
    ) -> list[np.ndarray]:
        """A⁽¹⁾ = argmin, row by row."""
        return fit_patients(tensor, models, before, nonnegative=self.nonnegative)

    def contribution(
        self,
        tensor: CountTensor,
        models: Sequence[Factors],
        patients: Sequence[np.ndarray],
        n: int,
        *,
        resampling: np.ndarray | None = None,
        unit: float = 1.0,
    ) -> StackedEquations:
        """The normal equations of every model."""
        return normal_equations(tensor, models, patients, n, resampling=resampling, unit=unit)

    def held_out(
        self, tensor: CountTensor, factors: Factors, seen: np.ndarray
    ) -> tuple[float, float]:
        """Memberships from the seen codes with a ridge; ‖O − X‖² over the others, and ‖O‖²."""
        *others, last = factors
        known, hidden = [*others, last * seen[:, None]], [*others, last * ~seen[:, None]]
        gram = gram_of_others(known)
        mean = float(np.trace(gram_of_others(factors))) / len(gram)
        ridged, between = gram + RIDGE * mean * np.eye(len(gram)), gram_of_others(hidden)
        error = norm = 0.0
        for _, piece in tensor.pieces():
            cells = piece.cells
            rows = solve_rows(cells.patient_product(known), ridged, nonnegative=self.nonnegative)
            inner = float((rows * cells.patient_product(hidden)).sum())
            counts = cells.values[~seen[cells.indices[:, -1]]].astype(np.float64)
            own = float(counts @ counts)
            error += own - 2.0 * inner + float(((rows.T @ rows) * between).sum())
            norm += own
        return error, norm

    def sums(self, total: StackedEquations, widths: Sequence[int], null: float) -> list[Sums]:
        """M, AᵀA and ‖O‖²."""
        return [
            {"mttkrp": m, "patient_gram": gram, "null": np.array(null)}
            for m, gram in total.of(widths, unit_of(null))
        ]

    def step(
        self, model: Factors, n: int, sums: Sums, penalty: FactorPenalty | None = None
    ) -> np.ndarray:
        """A(ΣG) = ΣM, over A ≥ 0 and with penalties where asked."""
        mttkrp, gram = sums["mttkrp"], sums["patient_gram"]
        others, _ = regular(_gram(model, n, sums))
        if penalty is None:
            return solve_rows(mttkrp, others, nonnegative=True, guess=model[n])
        return penalised_solve(model[n], mttkrp, gram, others, penalty)

    def value(self, model: Factors, n: int, sums: Sums) -> float:
        """‖O‖² − 2⟨M, A⟩ + ⟨AᵀA, G⟩."""
        return self.reached(model, n, sums, model[n])

    def gradient(self, model: Factors, n: int, sums: Sums) -> np.ndarray:
        """2(AG − M)."""
        return np.asarray(2.0 * (model[n] @ _gram(model, n, sums) - sums["mttkrp"]))

    def pull(self, model: Factors, n: int, sums: Sums) -> np.ndarray:
        """2M."""
        del model, n
        return 2.0 * sums["mttkrp"]

    def curvature(self, model: Factors, n: int, sums: Sums, move: np.ndarray) -> float:
        """2⟨DᵀD, G⟩."""
        return float(2.0 * ((move.T @ move) * _gram(model, n, sums)).sum())

    def removal_costs(self, model: Factors, n: int, sums: Sums, factor: np.ndarray) -> np.ndarray:
        """2(⟨O, c_r⟩ − Σ_s G_rs) + G_rr."""
        whole = (factor.T @ factor) * sums["patient_gram"] * gram_of_others(model, n)
        inner = (sums["mttkrp"] * factor).sum(axis=0)
        return np.asarray(2.0 * (inner - whole.sum(axis=0)) + np.diag(whole))

    def reached(self, model: Factors, n: int, sums: Sums, factor: np.ndarray) -> float:
        """The loss at any factor of the mode follows from the same sums."""
        return misfit(float(sums["null"]), factor, sums["mttkrp"], _gram(model, n, sums))


def _gram(model: Factors, n: int, sums: Sums) -> np.ndarray:
    """G = AᵀA ∘ the others' Gram matrices: the same in every question about one sum."""
    if "gram" not in sums:
        sums["gram"] = sums["patient_gram"] * gram_of_others(model, n)
    return sums["gram"]
