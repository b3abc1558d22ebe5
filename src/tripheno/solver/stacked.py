"""Several models side by side in one message: what a hospital contributes to all of them.

Products with the data go column by column, so models of any width lie beside each other as further
columns of the same factors: one pass over the data and one round serve them all.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tripheno.exchange.messages import Contribution
from tripheno.exchange.registry import CODES, COLUMNS, GRAMS, MessagePlan, declared, shaped
from tripheno.solver.penalties import FactorPenalty
from tripheno.solver.starts import Factors
from tripheno.tensor.count_tensor import CountTensor
from tripheno.tensor.factors import gram_of_others
from tripheno.tensor.rows import regular, solve_rows
from tripheno.tensor.shards import at_shards

DEAD = 1e-12  # a component with less than this share of the patients' squares holds nothing
LONGEST = 30  # iterations of a tournament
ROOM_BITS = 17  # a new kind of message has room for numbers up to 2¹⁸


def _times(plan: MessagePlan) -> int:
    field_state = plan.tournaments * (LONGEST + plan.iterations)
    return (field_state + plan.resampled) * len(plan.modes)


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

    def of(self, widths: Sequence[int], unit: float) -> list[tuple[np.ndarray, np.ndarray]]:
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
    _, exponent = math.frexp(max(null_loss, 1e-300))  # no logarithm, which may round either way
    return math.ldexp(1.0, exponent - ROOM_BITS)


def widths_of(models: Sequence[Factors]) -> list[int]:
    """How many columns each model has."""
    return [model[0].shape[1] for model in models]


def side_by_side(models: Sequence[Factors]) -> Factors:
    """The models' columns as those of one."""
    return tuple(np.hstack(parts) for parts in zip(*models, strict=True))


@at_shards("rows", rows=("before",))
def fit_patients(
    tensor: CountTensor,
    models: Sequence[Factors],
    before: Sequence[np.ndarray] | None = None,
    *,
    nonnegative: bool = True,
) -> list[np.ndarray]:
    """A⁽¹⁾ of every model, at home. Weights of patients do not enter: each row is its own fit."""
    beside, widths = side_by_side(models), widths_of(models)
    grams = [regular(gram_of_others(model))[0] for model in models]
    found = [tensor.room_for_rows(width) for width in widths]
    for at, piece in tensor.pieces():
        product = piece.cells.patient_product(beside)
        parts = np.split(product, np.cumsum(widths)[:-1], axis=1)
        for n, (rows, part, gram) in enumerate(zip(found, parts, grams, strict=True)):
            guess = None if before is None else np.ascontiguousarray(before[n][at])
            rows[at] = solve_rows(
                np.ascontiguousarray(part), gram, nonnegative=nonnegative, guess=guess
            )
    return found


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
    product, grams = _products(tensor, models, patients, n, resampling)
    return StackedEquations(product / unit, grams / unit)


@at_shards("sum", "sum", rows=("patients", "resampling"))
def _products(
    tensor: CountTensor,
    models: Sequence[Factors],
    patients: Sequence[np.ndarray],
    n: int,
    resampling: np.ndarray | None,
) -> tuple[np.ndarray, np.ndarray]:
    """M_k, and the Gram matrices row by row."""
    beside = side_by_side(models)
    product = np.zeros_like(beside[n])
    grams = [np.zeros((width, width)) for width in widths_of(models)]
    for at, piece in tensor.pieces():
        linear = root = [rows[at] for rows in patients]
        if resampling is not None:
            own = resampling[at]
            linear = [rows * own[:, [s]] for s, rows in enumerate(linear)]
            root = [rows * np.sqrt(own[:, [s]]) for s, rows in enumerate(root)]
        product += piece.cells.feature_product(beside, np.hstack(linear), n)
        grams = [g + piece.cells.patient_gram(rows) for g, rows in zip(grams, root, strict=True)]
    return product, np.concatenate([g.ravel() for g in grams])


def penalised_solve(
    factor: np.ndarray,
    mttkrp: np.ndarray,
    patient_gram: np.ndarray,
    gram: np.ndarray,
    penalty: FactorPenalty,
) -> np.ndarray:
    """A factor under its penalties, from where it stands; ``gram`` is the regular G.

    A column without patients has only the ridge in Q: what is given back would grow it.
    """
    linear = 2.0 * mttkrp
    if penalty.terms:
        linear += penalty.given_back(factor) * alive(np.diag(patient_gram))
    return penalty.minimise_whole(2.0 * gram, linear, factor)


def alive(squares: np.ndarray) -> np.ndarray:
    """Which components hold something, from the patients' squares: added exactly, so all agree."""
    return np.asarray(squares > DEAD * math.fsum(squares))


def misfit(squared_norm: float, factor: np.ndarray, mttkrp: np.ndarray, gram: np.ndarray) -> float:
    """‖X − O‖² from totals: ‖O‖² − 2⟨M, A⟩ + ⟨AᵀA, G⟩, for any A of the mode they belong to."""
    model = float(((factor.T @ factor) * gram).sum())
    return squared_norm - 2.0 * float((mttkrp * factor).sum()) + model
