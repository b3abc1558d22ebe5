"""TRIP: consensus ADMM as in the seed paper's Algorithm 1, in three variants.

`corrected` mends the paper's errata, `printed` follows its equations to the letter, `released`
takes the settings of the authors' program. See docs/mathematics.md.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tripheno.errors import PaperVariant
from tripheno.solver import hospital
from tripheno.solver.hospital import HospitalState, TripRules
from tripheno.solver.messages import FactorNews, Totals
from tripheno.solver.method import Choose, Contributed, Method, SharedState
from tripheno.solver.settings import SolverSettings
from tripheno.solver.stacked import alive
from tripheno.vocabulary.axis import Axis

RELEASED_GROWTH = 1.1
RELEASED_SPLIT_PENALTY = 1e-10


def trip_rules(settings: SolverSettings) -> TripRules:
    """What the variant means at a hospital."""
    if settings.variant == "printed":
        return TripRules(1.0, products_from_local=True, penalty_follows_data=False)
    if settings.variant == "released":
        return TripRules(2.0, penalty_follows_data=False)
    return TripRules(2.0, penalty_follows_data=settings.consensus_penalty is None)


class Trip(Method):
    """A = argmin (Σω_k/2)‖A − ΣU_k/Σω_k‖² + penalties, with B and Y for the distinctness term."""

    needs_residuals = True
    at_rest = f"{Method.at_rest} and the residuals are small"

    def __init__(self, settings: SolverSettings, axes: Sequence[Axis] = ()) -> None:
        super().__init__(settings, axes)
        self.rules = trip_rules(settings)
        self.printed = settings.variant == "printed"
        self.released = settings.variant == "released"
        self.fixed_length = self.released
        self.normalise = settings.variant == "corrected"
        self.most_steps = settings.most_inner_steps if self.normalise else 1
        if not self.normalise:
            warnings.warn(
                PaperVariant(
                    f"the {settings.variant} variant keeps known faults of the paper, to study "
                    "them; use `corrected` for results"
                ),
                stacklevel=2,
            )

    def distinct_mode(self, n: int) -> bool:
        """The released program has its λ on the first feature mode only."""
        return n == 0 or not self.released

    def start(self, factors: tuple[np.ndarray, ...], totals: Totals) -> SharedState:
        """B = A and Y = Y₀; ω as given, or c where it follows the data."""
        return replace(
            super().start(factors, totals),
            penalty=self._first_penalty(),
            last_factors=factors,
            split_factors=factors,
            split_dual=tuple(np.full_like(f, self.settings.split_dual_start) for f in factors),
            dual_residual=tuple(0.0 for _ in factors),
            typical=tuple(np.zeros(factor.shape[1]) for factor in factors),
        )

    def _first_penalty(self) -> float:
        """ω as given, else c; the released program begins at 1."""
        if self.settings.consensus_penalty is not None:
            return self.settings.consensus_penalty
        return 1.0 if self.released else self.settings.penalty_scale

    def contribute(self, state: HospitalState, news: FactorNews) -> Contributed:
        """A hospital's proposal."""
        return hospital.propose(state, news, self.rules)

    def absorb(
        self, state: SharedState, n: int, inner: int, total: Any, choose: Choose
    ) -> SharedState:
        """A from the sum of proposals, then B and Y; unit columns once it settled."""
        penalty, before = state.penalties[n], state.shared_factors[n]
        omega, omega_squared, gram_diagonal = total.penalty
        proposals = total.proposal
        if self.normalise:
            unit = state.last_factors[n]
            # where penalties outweigh the data a step is shortened; where it ends is the same
            held = penalty.stiffness(unit)
            proposals = proposals + alive(gram_diagonal) * penalty.given_back(unit) + held * before
            omega = omega + held
        distinct = penalty.distinct
        split = distinct is not None or self.printed
        if not split:
            factor = penalty.minimise(np.diag(omega), proposals)
        else:
            weight = 0.0 if distinct is None else distinct.weight
            mu = self._split_penalty(state, weight)
            b, y = state.split_factors[n], state.split_dual[n]
            quadratic = np.diag(omega + mu)
            linear = mu * b + y + proposals
            if distinct is None:
                factor = penalty.minimise(quadratic, linear)
            else:
                target = penalty.target(linear)
                factor = distinct.apart(
                    quadratic, target, b, weight, nonnegative=penalty.nonnegative
                )
            state = self._update_split(state, n, factor, mu, weight)
        settled = self._settled(state, n, factor, inner, choose)
        after = state.with_factor(n, factor, normalise=settled and self.normalise)
        if split and after.scale is not None:
            b, y = after.split_factors[n] / after.scale, after.split_dual[n] * after.scale
            after = replace(
                after,
                split_factors=_put(after.split_factors, n, b),
                split_dual=_put(after.split_dual, n, y),
            )
        step = (factor - before) * (1.0 if after.scale is None else after.scale)  # as H_k has it
        moved = float((step**2 * omega_squared).sum())
        residuals = list(state.dual_residual)
        residuals[n] = moved
        return replace(
            after,
            dual_residual=tuple(residuals),
            typical=_put(after.typical, n, gram_diagonal),
            settled=settled,
        )

    def _settled(
        self, state: SharedState, n: int, after: np.ndarray, inner: int, choose: Choose
    ) -> bool:
        """Whether the consensus on a mode has come to rest, within the steps allowed.

        One step by default, as in the paper's Algorithm 1: repeated steps on the same products
        would let hospitals be told apart in their sum. With more, the first iterations follow the
        central model closely, for they decide which optimum the run ends in.
        """
        settings, done = self.settings, inner + 1
        most = max(settings.inner_steps, self.most_steps)
        if done < settings.inner_steps or done >= most:
            return done >= most
        opening = state.iteration <= settings.opening
        tolerance = settings.inner_tolerance if opening else settings.later_tolerance
        moved = float(((after - state.shared_factors[n]) ** 2).sum())
        at_rest = moved <= tolerance**2 * float((after**2).sum())
        return bool(choose(np.array([int(at_rest)]))[0])

    def _split_penalty(self, state: SharedState, distinctness: float) -> float:
        """μ: as given; growing from almost nothing as released; else a few times λ."""
        if self.settings.split_penalty is not None:
            return self.settings.split_penalty
        if self.released:
            return RELEASED_SPLIT_PENALTY * RELEASED_GROWTH ** (state.iteration - 1)
        return 4.0 * distinctness

    def _update_split(
        self, state: SharedState, n: int, a: np.ndarray, mu: float, weight: float
    ) -> SharedState:
        """B = (λAAᵀ + μI)⁻¹((λ+μ)A − Y), then Y += μ(B − A). The print has B = A + Y/μ."""
        y = state.split_dual[n]
        if self.printed:
            b = a + y / mu
        else:
            right = (weight + mu) * a - y
            inner = np.linalg.solve(mu / weight * np.eye(a.shape[1]) + a.T @ a, a.T @ right)
            b = (right - a @ inner) / mu
        y = y + mu * (b - a)
        return replace(
            state,
            split_factors=_put(state.split_factors, n, b),
            split_dual=_put(state.split_dual, n, y),
        )

    def end_iteration(self, state: SharedState) -> SharedState:
        """ω grows as in the released program; else it follows the data."""
        growth = RELEASED_GROWTH if self.released else 1.0
        state = super().end_iteration(state)
        return replace(state, penalty=growth * state.penalty, last_factors=state.shared_factors)


def _put(items: tuple[np.ndarray, ...], n: int, item: np.ndarray) -> tuple[np.ndarray, ...]:
    return (*items[:n], item, *items[n + 1 :])
