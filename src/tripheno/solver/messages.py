"""Everything the solvers send. Shapes follow from mode sizes and rank, never from patients."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tripheno.exchange.messages import Contribution, Message
from tripheno.exchange.registry import CODES, RANK, SKETCH, MessagePlan, declared, shaped
from tripheno.solver.tournament import FINALISTS

REVIEW = (
    "squared_error",
    "squared_error_nonzeros",
    "primal",
    "local_norm",
    "dual_norm",
    "singular",
)
SIZE_BITS = 26  # of sums of squares over a hospital: a wider one costs a round more


def _rounds(plan: MessagePlan) -> int:
    return plan.fits * (plan.iterations + 1) * plan.inner_steps * len(plan.modes)


@declared(
    "totals",
    "none: three numbers about all patients together",
    lambda plan: plan.fits + plan.tournaments,
)
@dataclass(frozen=True)
class Totals(Contribution):
    """What a hospital's tensor amounts to: the loss of no model (‖O_k‖²), cells, patients."""

    null_loss: float = shaped(least=SIZE_BITS)
    nonzeros: float = shaped(least=SIZE_BITS)
    patients: float = shaped(least=SIZE_BITS)


@declared(
    "lengths", "none: the mean logarithm of all patients' record lengths together",
    lambda plan: plan.fits if plan.bounded else 0,
)  # fmt: skip
@dataclass(frozen=True)
class Lengths(Contribution):
    """Σ log₂‖O_i‖ and over how many patients: no length is counted, so none is counted once."""

    log_length: float
    patients: float


@declared(
    "sketch", "codes × test vectors: which codes occur together, sums over all patients",
    lambda plan: plan.tournaments,
)  # fmt: skip
@dataclass(frozen=True)
class Sketch(Contribution):
    """C_k Ω for every mode's codes: where starts come from."""

    sketch: tuple[np.ndarray, ...] = shaped(CODES, SKETCH)


@declared(
    "normal-equations", "codes of one mode × phenotypes, sums over all patients",
    lambda plan: _rounds(plan) if plan.method == "exact" and plan.loss == "squared" else 0,
)  # fmt: skip
@dataclass(frozen=True)
class NormalEquations(Contribution):
    """`exact`: M_k = O₍ₙ₎Π and the patients' Gram matrix, from which all build ΣG_k."""

    mttkrp: np.ndarray = shaped(CODES, RANK)
    patient_gram: np.ndarray = shaped(RANK, RANK)
    review: np.ndarray = shaped(len(REVIEW), least=SIZE_BITS)


@declared(
    "proposal", "codes of one mode × phenotypes, this hospital's proposal in the sum of all",
    lambda plan: _rounds(plan) if plan.method == "trip" else 0,
)  # fmt: skip
@dataclass(frozen=True)
class Proposal(Contribution):
    """`trip`: U_k = A_k ω_k − H_k, with ω_k, ω_k² and diag G_k per component."""

    proposal: np.ndarray = shaped(CODES, RANK)
    penalty: np.ndarray = shaped(3, RANK)
    review: np.ndarray = shaped(len(REVIEW), least=SIZE_BITS)


@declared(
    "review", "none: six numbers about all patients together",
    lambda plan: plan.fits if plan.method != "local" else 0,
)  # fmt: skip
@dataclass(frozen=True)
class Review(Contribution):
    """How well the last iterate fits: the named numbers of ``REVIEW``."""

    review: np.ndarray = shaped(len(REVIEW), least=SIZE_BITS)


@declared(
    "measures",
    "phenotypes × phenotypes, and three errors over all patients",
    lambda plan: plan.fits,
)
@dataclass(frozen=True)
class Measures(Contribution):
    """The fit of the final factors: the weighted loss, squares of all patients alike, the Gram."""

    loss: float = shaped(least=SIZE_BITS)
    raw_error: float = shaped(least=SIZE_BITS)
    raw_error_nonzeros: float = shaped(least=SIZE_BITS)
    patient_gram: np.ndarray = shaped(RANK, RANK)


@declared(
    "factors", "codes × phenotypes: what a fit ended in, which follows from sums; for its mean",
    lambda plan: plan.fits
    + plan.tournaments * (1 + sum(FINALISTS.values())) * (plan.guided or plan.bias),
)  # fmt: skip
@dataclass(frozen=True)
class SharedFactors(Contribution):
    """The factors of a fit, of every hospital or of the first one."""

    factors: tuple[np.ndarray, ...] = shaped(CODES, RANK)


@declared(
    "own-factors", "codes × phenotypes of this hospital alone, IN CLEAR",
    lambda plan: plan.fits if plan.method == "local" else 0, how="gather",
)  # fmt: skip
@dataclass(frozen=True)
class OwnFactors(Message):
    """`local` only, and not a sum: one hospital's own feature factors, released as they are."""

    iterations: int
    converged: int  # 0 or 1
    factors: tuple[np.ndarray, ...] = shaped(CODES, RANK)


@dataclass(frozen=True)
class FactorNews:
    """A feature factor that just changed, and what is contributed next. Never leaves a process.

    ``scale`` are the lengths taken off its columns (D): hospitals put them back on their side.
    """

    changed: int  # feature mode that changed, −1 for none
    factor: np.ndarray
    scale: np.ndarray
    asked: int  # feature mode to contribute to
    first: bool  # whether the products with the data are to be made anew
    penalty: float  # c where penalties follow the data, else ω
    typical: np.ndarray  # diag ΣG of the mode in the last iteration, zero in the first
