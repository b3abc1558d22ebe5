"""TRIP's server: consensus ADMM as in the seed paper's Algorithm 1, in three variants.

`corrected` mends the paper's errata, `printed` follows its equations to the letter, `released`
takes the settings of the authors' program. See docs/mathematics.md.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tripheno.errors import PaperVariant
from tripheno.exchange.messages import Contribution
from tripheno.solver.hospital import TripRules
from tripheno.solver.messages import Proposal, Totals
from tripheno.solver.server import ServerMethod, ServerState
from tripheno.solver.settings import SolverSettings
from tripheno.vocabulary.axis import Axis

BALANCE_RATIO = 10.0  # Boyd's μ: residuals further apart than this move the penalty
BALANCE_RANGE = 4.0  # and c leaves its first value by this factor at most
RELEASED_GROWTH = 1.1
RELEASED_SPLIT_PENALTY = 1e-10


def one_step_penalty(
    own_gram: np.ndarray, mean_gram: np.ndarray | None, scale: float = 1.0
) -> np.ndarray:
    """ω_k = c·2·max(diag G_k, diag ΣG/K of the last iteration), per component.

    For one consensus step per mode. A component that a hospital hardly has is held by what the
    others have of it: from its own G_k alone a third of the runs on MIMIC-III diverged. In the
    first iteration there is no mean yet, and 1e-3 of the hospital's largest component stands in.
    """
    own = np.diag(own_gram)
    floor = 1e-3 * own.max(initial=0.0) if mean_gram is None else np.diag(mean_gram)
    omega = np.maximum(own, floor)
    return np.asarray(scale * 2.0 * np.where(omega > 0.0, omega, 1.0))  # without data: any will do


def trip_rules(settings: SolverSettings) -> TripRules:
    """What the variant means at a hospital."""
    if settings.variant == "printed":
        return TripRules(1.0, products_from_local=True, penalty_follows_data=False)
    if settings.variant == "released":
        return TripRules(2.0, penalty_follows_data=False)
    return TripRules(2.0, penalty_follows_data=settings.consensus_penalty is None)


class TripServer(ServerMethod):
    """A = argmin (Σω_k/2)‖A − ΣU_k/Σω_k‖² + penalties, with B and Y for the distinctness term."""

    needs_residuals = True

    def __init__(self, settings: SolverSettings, axes: Sequence[Axis] = ()) -> None:
        super().__init__(settings, axes)
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

    def start(self, factors: tuple[np.ndarray, ...], totals: Totals) -> ServerState:
        """B = A and Y = Y₀; ω as given, or c where it follows the data."""
        return replace(
            super().start(factors, totals),
            penalty=self._first_penalty(),
            last_factors=factors,
            split_factors=factors,
            split_dual=tuple(np.full_like(f, self.settings.split_dual_start) for f in factors),
            dual_residual=tuple(0.0 for _ in factors),
        )

    def _first_penalty(self) -> float:
        """ω as given, else c; the released program begins at 1."""
        if self.settings.consensus_penalty is not None:
            return self.settings.consensus_penalty
        return 1.0 if self.released else self.settings.penalty_scale

    def empty_sum(self, size: int) -> Proposal:
        """The proposals' sum, zero."""
        return Proposal.zeros(size, self.settings.rank)

    def absorb(self, state: ServerState, n: int, inner: int, total: Contribution) -> ServerState:
        """A from the sum of proposals, then B and Y; unit columns once it settled."""
        assert isinstance(total, Proposal)  # what empty_sum promised
        penalty, before = state.penalties[n], state.shared_factors[n]
        omega, omega_squared = total.penalty
        proposals = total.proposal
        if self.normalise:
            proposals = proposals + penalty.given_back(state.last_factors[n])
        split = penalty.distinctness > 0.0 or self.printed
        if not split:
            factor = penalty.minimise(np.diag(omega), proposals)
        else:
            mu = self._split_penalty(state, penalty.distinctness)
            b, y = state.split_factors[n], state.split_dual[n]
            quadratic = np.diag(omega + mu)
            linear = mu * b + y + proposals
            factor = penalty.minimise(quadratic, linear, b, penalty.distinctness)
            state = self._update_split(state, n, factor, mu)
        settled = self._settled(state, n, factor, inner)
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
        return replace(after, dual_residual=tuple(residuals), settled=settled)

    def _settled(self, state: ServerState, n: int, after: np.ndarray, inner: int) -> bool:
        """Whether the consensus on a mode has come to rest, within the steps allowed.

        The first iterations decide which optimum the run ends in, so they follow the central model
        closely; near the end the consensus has settled before the fewest steps are done.
        """
        settings, done = self.settings, inner + 1
        if done < settings.inner_steps:
            return False
        opening = state.iteration <= settings.opening
        tolerance = settings.inner_tolerance if opening else settings.later_tolerance
        moved = float(((after - state.shared_factors[n]) ** 2).sum())
        at_rest = moved <= tolerance**2 * float((after**2).sum())
        return at_rest or done >= max(settings.inner_steps, self.most_steps)

    def _split_penalty(self, state: ServerState, distinctness: float) -> float:
        """μ: as given; growing from almost nothing as released; else a few times λ."""
        if self.settings.split_penalty is not None:
            return self.settings.split_penalty
        if self.released:
            return RELEASED_SPLIT_PENALTY * RELEASED_GROWTH ** (state.iteration - 1)
        return 4.0 * distinctness

    def _update_split(self, state: ServerState, n: int, a: np.ndarray, mu: float) -> ServerState:
        """B = (λAAᵀ + μI)⁻¹((λ+μ)A − Y), then Y += μ(B − A). The print has B = A + Y/μ."""
        y, weight = state.split_dual[n], state.penalties[n].distinctness
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

    def end_iteration(self, state: ServerState, primal: float, dual: float) -> ServerState:
        """Balance the residuals through c for a while; grow ω as the released program does.

        One hospital agrees with itself: its primal residual is nothing, and c, halved for ever,
        would leave the factors to the split copy's μ alone. Doubled for ever, c would hold the
        factor where it is, and a consensus that cannot move looks settled. So c stays in a range.
        """
        penalty = state.penalty
        if self.released:
            penalty *= RELEASED_GROWTH
        elif not self.printed and state.iteration <= self.settings.balance_until:
            if primal > BALANCE_RATIO * dual:
                penalty *= 2.0
            elif dual > BALANCE_RATIO * primal:
                penalty /= 2.0
            first = self._first_penalty()
            penalty = min(max(penalty, first / BALANCE_RANGE), first * BALANCE_RANGE)
        state = super().end_iteration(state, primal, dual)
        return replace(state, penalty=penalty, last_factors=state.shared_factors)


def _put(items: tuple[np.ndarray, ...], n: int, item: np.ndarray) -> tuple[np.ndarray, ...]:
    return (*items[:n], item, *items[n + 1 :])
