"""What all hospitals make of a total: pure functions that every one of them runs alike."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tripheno.exchange.messages import Contribution
from tripheno.exchange.registry import RANK, declared, shaped
from tripheno.solver import hospital
from tripheno.solver.guides import guide_columns
from tripheno.solver.hospital import HospitalState
from tripheno.solver.messages import FactorNews, Totals
from tripheno.solver.penalties import FactorPenalty, penalty_of
from tripheno.solver.settings import SolverSettings
from tripheno.solver.stacked import alive, penalised_solve
from tripheno.solver.starts import uniform_rows
from tripheno.solver.stopping import kkt_residual, movement
from tripheno.tensor.factors import gram_of_others, unit_columns
from tripheno.tensor.rows import regular
from tripheno.vocabulary.axis import Axis

MOST_HALVINGS = 11  # of a step; one column that would have to go shorter stays
RESEEDED = range(3, 60, 6)  # iterations in which components that were lost begin again
TOGETHER = 3  # of those, how many are tried for all columns at once

Contributed = tuple[HospitalState, Contribution]
Choose = Callable[[np.ndarray], np.ndarray]
"""``chosen = choose(own)``: what most hospitals choose where floating point decides."""


@declared(
    "step-lengths", "none: how far this hospital's program would move each phenotype",
    lambda plan: plan.fits * plan.iterations * plan.choices if plan.method == "exact" else 0,
)  # fmt: skip
@dataclass(frozen=True)
class StepLengths(Contribution):
    """Halvings of every column's step: 1 for the number chosen."""

    chosen: np.ndarray = shaped(RANK, MOST_HALVINGS + 1)

    @classmethod
    def of(cls, halvings: np.ndarray) -> StepLengths:
        """One hospital's vote."""
        return cls((halvings[:, None] == np.arange(MOST_HALVINGS + 1)).astype(np.float64))


@dataclass(frozen=True)
class SharedState:
    """What every hospital knows alike: feature factors and sums, nothing of one hospital."""

    shared_factors: tuple[np.ndarray, ...]
    totals: Totals
    penalties: tuple[FactorPenalty, ...]
    changed: int = -1
    settled: bool = True  # whether the mode in hand is done in this iteration
    scale: np.ndarray | None = None
    penalty: float = 0.0  # c or ω of the iteration
    iteration: int = 1
    split_factors: tuple[np.ndarray, ...] = ()  # B⁽ⁿ⁾
    split_dual: tuple[np.ndarray, ...] = ()  # Y⁽ⁿ⁾
    last_factors: tuple[np.ndarray, ...] = ()  # as the iteration began
    dual_residual: tuple[float, ...] = ()  # squared, per mode
    typical: tuple[np.ndarray, ...] = ()  # diag ΣG_k of each mode in the last iteration
    slope: float = 0.0  # the largest KKT residual of the iteration, over its modes
    moved: float = np.inf  # how far the component that moved most went in the last iteration
    singular: bool = False

    def news(self, asked: int, first: bool) -> FactorNews:
        """The factor that changed last, and what is asked next."""
        rank = self.shared_factors[0].shape[1]
        typical = self.typical[asked] if self.typical else np.zeros(rank)
        if self.changed < 0:
            return FactorNews(
                -1, np.zeros((0, rank)), np.ones(rank), asked, True, self.penalty, typical
            )
        scale = np.ones(rank) if self.scale is None else self.scale
        factor = self.shared_factors[self.changed]
        return FactorNews(self.changed, factor, scale, asked, first, self.penalty, typical)

    def with_factor(self, n: int, factor: np.ndarray, *, normalise: bool = True) -> SharedState:
        """The state after feature mode n changed, its columns brought to unit length."""
        scale = np.ones(factor.shape[1])
        if normalise:
            factor, scale = unit_columns(factor)
        factors = (*self.shared_factors[:n], factor, *self.shared_factors[n + 1 :])
        return replace(self, shared_factors=factors, changed=n, scale=scale)


class Method(ABC):
    """A federated method, as the one loop drives it."""

    needs_residuals = False
    fixed_length = False  # always runs to max_iter
    at_rest = "objective, slopes and factors stood still twice in a row"

    def __init__(self, settings: SolverSettings, axes: Sequence[Axis] = ()) -> None:
        self.settings, self.axes = settings, axes
        self.guides = guide_columns(axes, settings.guides, settings.rank) if settings.guides else ()

    def start(self, factors: tuple[np.ndarray, ...], totals: Totals) -> SharedState:
        """The state before the first iteration, penalties on the scale of the data."""
        scale = totals.null_loss / self.settings.n_components
        penalties = tuple(
            penalty_of(
                self.settings, scale, self.guides[n] if self.guides else None,
                distinct=self.distinct_mode(n),
            )
            for n in range(len(factors))
        )  # fmt: skip
        return SharedState(factors, totals, penalties)

    def distinct_mode(self, _n: int) -> bool:
        """Whether the distinctness term acts on feature mode n."""
        return True

    @abstractmethod
    def contribute(self, state: HospitalState, news: FactorNews) -> Contributed:
        """What a hospital adds to the next sum."""

    @abstractmethod
    def absorb(
        self, state: SharedState, n: int, inner: int, total: Any, choose: Choose
    ) -> SharedState:
        """The sum becomes the new factor of feature mode n; what is chosen on the way is a vote."""

    def end_iteration(self, state: SharedState) -> SharedState:
        """What changes between iterations."""
        moved = movement(state.last_factors, state.shared_factors)
        return replace(state, iteration=state.iteration + 1, moved=moved)


class Exact(Method):
    """Solve A(ΣG_k) = ΣM_k: the federated update *is* the central one."""

    def contribute(self, state: HospitalState, news: FactorNews) -> Contributed:
        """M_k and the patients' Gram matrix."""
        return hospital.normal_equations(state, news)

    def absorb(
        self, state: SharedState, n: int, inner: int, total: Any, choose: Choose
    ) -> SharedState:
        """argmin_A ‖AΠᵀ − O₍ₙ₎‖² + penalties, never raising Ψ."""
        del inner
        penalty, current = state.penalties[n], state.shared_factors[n]
        mttkrp, patient_gram = total.mttkrp, total.patient_gram
        gram, singular = regular(patient_gram * gram_of_others(state.shared_factors, n))
        factor = penalised_solve(current, mttkrp, patient_gram, gram, penalty)
        if penalty.terms:  # a full step can raise Ψ, so that its length is chosen
            factor = _descend(
                current, factor, 2.0 * gram, 2.0 * mttkrp, penalty=penalty, choose=choose
            )
        else:
            factor = self._reseeded(factor, n, patient_gram, state.iteration)
        gradient = current @ gram
        gradient -= mttkrp
        gradient *= 2.0
        if penalty.terms:
            gradient += penalty.gradient(current)
        slope = kkt_residual(current, gradient, 2.0 * mttkrp, nonnegative=penalty.nonnegative)
        state = replace(
            state,
            singular=state.singular or singular,
            slope=slope if n == 0 else max(state.slope, slope),
            last_factors=state.shared_factors if n == 0 else state.last_factors,
        )
        return state.with_factor(n, factor)

    def _reseeded(
        self, factor: np.ndarray, n: int, patient_gram: np.ndarray, iteration: int
    ) -> np.ndarray:
        """Columns without patients begin again, a few times, as another random start would.

        Patients are fitted anew and may leave them at zero, so Ψ does not rise.
        """
        dead = ~alive(np.diag(patient_gram))
        if not (dead.any() and self.axes and iteration in RESEEDED):
            return factor
        text = f"{self.settings.seed}|again {iteration}"
        return np.where(dead, uniform_rows(self.axes[n], len(dead), text), factor)


def _descend(
    current: np.ndarray,
    candidate: np.ndarray,
    quadratic: np.ndarray,
    linear: np.ndarray,
    *,
    penalty: FactorPenalty,
    choose: Choose,
) -> np.ndarray:
    """As far towards the candidate as Ψ does not rise: all columns alike, else each by itself.

    The penalties are solved for a scale and a partner (B) that the step itself changes, so a full
    step can overshoot; one column that does must not hold the others.
    """

    def objective(factor: np.ndarray) -> float:
        fit = 0.5 * float((quadratic * (factor.T @ factor)).sum()) - float((linear * factor).sum())
        return fit + penalty.value(factor)

    def stepped(halvings: np.ndarray) -> np.ndarray:
        lengths = np.where(halvings < MOST_HALVINGS, 2.0**-halvings, 0.0)
        return np.asarray(current + lengths * (candidate - current))

    rank, lowest = current.shape[1], objective(current)
    for together in range(TOGETHER):
        halvings = np.full(rank, together)
        if objective(stepped(halvings)) <= lowest:
            return stepped(choose(halvings))
    halvings = np.full(rank, MOST_HALVINGS)
    for r in range(rank):
        for own in range(MOST_HALVINGS):
            tried = np.where(np.arange(rank) == r, own, halvings)
            found = objective(stepped(tried))
            if found <= lowest:
                halvings, lowest = tried, found
                break
    return stepped(choose(halvings))
