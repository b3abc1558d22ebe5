"""Poisson (Kullback–Leibler) loss, Σ model − Σ x log model: counts as counts.

The first term comes from column sums, the second from nonzero cells only. Given the other modes the
rows of a mode are separate convex problems; each takes a damped Newton step with an exact NNLS.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tripheno.solver.losses import Loss, Sums, column_sums
from tripheno.solver.starts import Factors
from tripheno.tensor import poisson_kernels as kernels
from tripheno.tensor.count_tensor import CountTensor

SMALLEST = 1e-12  # of a unit column: an entry at zero could never explain a count


@dataclass(frozen=True)
class PoissonLoss(Loss):
    """``least`` is the smallest weight a count can have: 1, or less where influence is bounded."""

    least: float = 1.0
    patient_steps: int = 3  # Newton steps at home in an iteration

    def fit_patients(
        self, tensor: CountTensor, factors: Factors, patients: np.ndarray | None
    ) -> np.ndarray:
        """A few Newton steps from the rows before; at first from equal shares of the counts."""
        sums = column_sums(factors)
        if patients is None:
            counts = np.bincount(
                tensor.patient_of_cell,
                weights=tensor.cells.values.astype(np.float64),
                minlength=tensor.patients,
            )
            patients = np.outer(counts, 1.0 / (len(sums) * np.maximum(sums, 1e-300)))
        for _ in range(self.patient_steps):
            slopes, curves, _ = _sums(tensor, factors, patients, -1)
            after = np.empty_like(patients)
            kernels.newton_rows(slopes, curves, sums, 1.0, patients, after)
            patients = np.maximum(after, SMALLEST * after.max(axis=1, keepdims=True))
        return patients

    def contribution(
        self, tensor: CountTensor, factors: Factors, patients: np.ndarray, n: int
    ) -> Sums:
        """Per code Σ w(x/m)π and Σ w(x/m²)ππᵀ; Σ w a_i; Σ w x log m."""
        slopes, curves, logs = _sums(tensor, factors, patients, n)
        return {
            "slopes": slopes,
            "curves": curves,
            "patient_sums": tensor.cells.each_weight @ patients,
            "logs": np.array([logs]),
        }

    def step(self, factors: Factors, n: int, total: Mapping[str, np.ndarray]) -> np.ndarray:
        """One damped Newton step of every code's row."""
        sums = total["patient_sums"] * column_sums(factors, n)
        after = np.empty_like(factors[n])
        slopes, curves = total["slopes"], total["curves"]
        kernels.newton_rows(slopes, curves, sums, self.least, factors[n], after)
        used = total["slopes"].any(axis=1, keepdims=True)
        return np.asarray(np.where(used, np.maximum(after, SMALLEST * after.max(axis=0)), 0.0))

    def value(self, factors: Factors, n: int, total: Mapping[str, np.ndarray]) -> float:
        """Σ_r (Σ_i a_ir) Π_n Σ_j A_jr − Σ x log m."""
        del n
        return float(total["patient_sums"] @ column_sums(factors) - total["logs"][0])

    def gradient(self, factors: Factors, n: int, total: Mapping[str, np.ndarray]) -> np.ndarray:
        """Column sums of the others less Σ (x/m)π."""
        return np.asarray(total["patient_sums"] * column_sums(factors, n) - total["slopes"])


def _sums(
    tensor: CountTensor, factors: Factors, patients: np.ndarray, target: int
) -> tuple[np.ndarray, np.ndarray, float]:
    cells, rank = tensor.cells, patients.shape[1]
    rows = tensor.patients if target < 0 else len(factors[target])
    slopes, curves = np.zeros((rows, rank)), np.zeros((rows, rank * (rank + 1) // 2))
    offsets = np.concatenate([[0], np.cumsum([len(f) for f in factors])[:-1]]).astype(np.int64)
    logs = np.zeros(1)
    kernels.poisson_sums(
        cells.starts, cells.indices, cells.values.astype(np.float64), np.vstack(factors), offsets,
        np.ascontiguousarray(patients), cells.each_weight, target, slopes, curves, logs,
    )  # fmt: skip
    return slopes, curves, float(logs[0])
