"""What a good fit is: a loss says what a hospital contributes and what all make of the total.

Every field of a contribution is a sum over patients, so the federated step is the pooled one by
construction. A further loss is a file with these four answers; `testing.loss_contract` proves them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

import numpy as np

from tripheno.solver.starts import Factors
from tripheno.tensor.count_tensor import CountTensor
from tripheno.tensor.factors import gram_of_others
from tripheno.tensor.rows import regular, solve_rows

Sums = dict[str, np.ndarray]


class Loss(ABC):
    """Squared, Poisson, or one of your own; factors are non-negative."""

    @abstractmethod
    def fit_patients(
        self, tensor: CountTensor, factors: Factors, patients: np.ndarray | None
    ) -> np.ndarray:
        """The patients' rows, better than before or the best; at home, weights do not enter."""

    @abstractmethod
    def contribution(
        self, tensor: CountTensor, factors: Factors, patients: np.ndarray, n: int
    ) -> Sums:
        """One hospital's sums for feature mode n, under the tensor's weights."""

    @abstractmethod
    def step(self, factors: Factors, n: int, total: Mapping[str, np.ndarray]) -> np.ndarray:
        """The new factor of feature mode n, from the total; the loss does not rise."""

    @abstractmethod
    def value(self, factors: Factors, n: int, total: Mapping[str, np.ndarray]) -> float:
        """The loss at these factors, and at the patients the total of mode n was made with."""

    @abstractmethod
    def gradient(self, factors: Factors, n: int, total: Mapping[str, np.ndarray]) -> np.ndarray:
        """Its derivative by the factor of feature mode n, from the same total."""


class SquaredLoss(Loss):
    """‖X − O‖²: normal equations, solved exactly."""

    def fit_patients(
        self, tensor: CountTensor, factors: Factors, patients: np.ndarray | None
    ) -> np.ndarray:
        """A⁽¹⁾ = argmin, row by row."""
        gram, _ = regular(gram_of_others(factors))
        product = tensor.cells.patient_product(factors)
        return solve_rows(product, gram, nonnegative=True, guess=patients)

    def contribution(
        self, tensor: CountTensor, factors: Factors, patients: np.ndarray, n: int
    ) -> Sums:
        """M_k, A_kᵀWA_k and Σ w_i‖O_i‖²."""
        return {
            "mttkrp": tensor.cells.feature_product(factors, patients, n),
            "patient_gram": tensor.cells.patient_gram(patients),
            "squared_norm": np.array([tensor.squared_norm]),
        }

    def step(self, factors: Factors, n: int, total: Mapping[str, np.ndarray]) -> np.ndarray:
        """A(ΣG) = ΣM over A ≥ 0."""
        gram, _ = regular(total["patient_gram"] * gram_of_others(factors, n))
        return solve_rows(total["mttkrp"], gram, nonnegative=True)

    def value(self, factors: Factors, n: int, total: Mapping[str, np.ndarray]) -> float:
        """‖O‖² − 2⟨M, A⟩ + ⟨AᵀA, G⟩."""
        inner = float((total["mttkrp"] * factors[n]).sum())
        model = float((total["patient_gram"] * gram_of_others(factors)).sum())
        return float(total["squared_norm"][0]) - 2.0 * inner + model

    def gradient(self, factors: Factors, n: int, total: Mapping[str, np.ndarray]) -> np.ndarray:
        """2(AG − M)."""
        gram = total["patient_gram"] * gram_of_others(factors, n)
        return np.asarray(2.0 * (factors[n] @ gram - total["mttkrp"]))


def column_sums(factors: Sequence[np.ndarray], but: int | None = None) -> np.ndarray:
    """Π over modes (all but one) of Σ_j A_jr."""
    sums = [f.sum(axis=0) for n, f in enumerate(factors) if n != but]
    return np.asarray(np.prod(sums, axis=0))
