"""Several models side by side in one message: what a hospital contributes to all of them.

Products with the data go column by column, so models of any width lie beside each other as further
columns of the same factors: one pass over the data and one round serve them all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tripheno.exchange.messages import Contribution
from tripheno.exchange.registry import CODES, COLUMNS, GRAMS, Plan, declared, shaped
from tripheno.solver.penalties import FactorPenalty
from tripheno.solver.starts import Factors
from tripheno.tensor.count_tensor import CountTensor
from tripheno.tensor.factors import gram_of_others
from tripheno.tensor.rows import regular, solve_rows

DEAD = 1e-12  # a component with less than this share of the patients' squares holds nothing
LONGEST = 32  # iterations of a tournament
ROOM_BITS = 17  # a new kind of message has room for numbers up to 2¹⁸


def _times(plan: Plan) -> int:
    race = plan.tournaments * (LONGEST + plan.iterations)
    return (race + plan.resampled) * len(plan.modes)


@declared(
    "models", "codes of one mode × columns of several models, sums over all patients",
    lambda plan: _times(plan) if plan.loss == "squared" else 0,
)  # fmt: skip
@dataclass(frozen=True)
class StackedEquations(Contribution):
    """M_k and A_kᵀA_k of every model; all models' R × R matrices row by row, one after the other.

    As shares of 2⁻¹⁷‖O‖², rounded to a power of two: no entry is larger than that, so that no
    message has to be repeated because its numbers did not fit.
    """

    mttkrp: np.ndarray = shaped(CODES, COLUMNS)
    patient_gram: np.ndarray = shaped(GRAMS)

    def of(self, widths: Sequence[int], unit: float = 1.0) -> list[tuple[np.ndarray, np.ndarray]]:
        """(M, AᵀA) of every model."""
        products = np.split(self.mttkrp * unit, np.cumsum(widths)[:-1], axis=1)
        cuts = np.cumsum([width * width for width in widths])[:-1]
        grams = np.split(self.patient_gram * unit, cuts)
        return [
            (np.ascontiguousarray(m), g.reshape(w, w))
            for m, g, w in zip(products, grams, widths, strict=True)
        ]


def unit_of(null_loss: float) -> float:
    """What the numbers of a message are shares of."""
    return float(2.0 ** (np.ceil(np.log2(max(null_loss, 1e-300))) - ROOM_BITS))


def widths_of(models: Sequence[Factors]) -> list[int]:
    """How many columns each model has."""
    return [model[0].shape[1] for model in models]


def side_by_side(models: Sequence[Factors]) -> Factors:
    """The models' columns as those of one."""
    return tuple(np.hstack(parts) for parts in zip(*models, strict=True))


def fit_patients(
    tensor: CountTensor, models: Sequence[Factors], *, nonnegative: bool = True
) -> list[np.ndarray]:
    """A⁽¹⁾ of every model, at home. Weights of patients do not enter: each row is its own fit."""
    product = tensor.cells.patient_product(side_by_side(models))
    parts = np.split(product, np.cumsum(widths_of(models))[:-1], axis=1)
    return [
        solve_rows(
            np.ascontiguousarray(part), regular(gram_of_others(model))[0], nonnegative=nonnegative
        )
        for part, model in zip(parts, models, strict=True)
    ]


def normal_equations(
    tensor: CountTensor,
    models: Sequence[Factors],
    patients: Sequence[np.ndarray],
    n: int,
    *,
    resampling: np.ndarray | None = None,
    unit: float = 1.0,
) -> StackedEquations:
    """One hospital's M_k and A_kᵀWA_k of feature mode n for every model.

    The tensor's weights act on all of them. ``resampling``, patients × models, is a further weight
    for each model of its own: M is linear in the patient factor, so it is a factor on the row.
    """
    linear = root = patients
    if resampling is not None:
        linear = [rows * resampling[:, [s]] for s, rows in enumerate(patients)]
        root = [rows * np.sqrt(resampling[:, [s]]) for s, rows in enumerate(patients)]
    product = tensor.cells.feature_product(side_by_side(models), np.hstack(linear), n)
    grams = [tensor.cells.patient_gram(rows).ravel() for rows in root]
    return StackedEquations(product / unit, np.concatenate(grams) / unit)


def solved(model: Factors, n: int, mttkrp: np.ndarray, patient_gram: np.ndarray) -> np.ndarray:
    """The new factor of feature mode n, not yet of unit length: argmin_{A≥0} ‖AΠᵀ − O₍ₙ₎‖²."""
    gram, _ = regular(patient_gram * gram_of_others(model, n))
    return solve_rows(mttkrp, gram, nonnegative=True)


def penalised_solve(
    model: Factors, n: int, mttkrp: np.ndarray, patient_gram: np.ndarray, penalty: FactorPenalty
) -> np.ndarray:
    """The same with penalties on the factor, from where it stands.

    A column without patients has only the ridge in Q: what is given back would grow it.
    """
    gram, _ = regular(patient_gram * gram_of_others(model, n))
    alive = np.diag(patient_gram) > DEAD * np.trace(patient_gram)
    linear = 2.0 * mttkrp + penalty.given_back(model[n]) * alive
    return penalty.minimise_distinct(2.0 * gram, linear, model[n])


def misfit(squared_norm: float, factor: np.ndarray, mttkrp: np.ndarray, gram: np.ndarray) -> float:
    """‖X − O‖² from totals: ‖O‖² − 2⟨M, A⟩ + ⟨AᵀA, G⟩, for any A of the mode they belong to."""
    model = float(((factor.T @ factor) * gram).sum())
    return squared_norm - 2.0 * float((mttkrp * factor).sum()) + model
