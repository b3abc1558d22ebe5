"""Whether `trip` is at an end of Ψ, asked of the hospitals where its own residuals say so.

`exact` sees the gradient of Ψ in every sum. Proposals do not show it: the consensus, and the two
halves of the distinctness term, can stand still long before Ψ does. So a run that would stop is
asked once, and if it is on a slope again only after half as many iterations more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tripheno.exchange.messages import Contribution
from tripheno.exchange.registry import CODES, RANK, MessagePlan, declared, shaped
from tripheno.solver.hospital import HospitalState
from tripheno.solver.losses import loss_of
from tripheno.solver.penalties import FactorPenalty
from tripheno.solver.stacked import unit_of
from tripheno.solver.starts import Factors
from tripheno.solver.stopping import QUIET, kkt_residual


def patience(iteration: int) -> int:
    """Iterations before a run that was found on a slope is asked again."""
    return iteration // 2


def _most_times(plan: MessagePlan) -> int:
    """How often a run of `trip` can be asked, the time at its limit included."""
    times, iteration = 1, QUIET
    while iteration <= plan.iterations:
        times, iteration = times + 1, iteration + patience(iteration) + QUIET
    return plan.fits * times if plan.method == "trip" else 0


@declared(
    "slopes", "codes × phenotypes, sums over all patients, where trip stands still", _most_times
)
@dataclass(frozen=True)
class Slopes(Contribution):
    """The loss's gradient by every feature factor, and the part of it that the data make."""

    gradient: tuple[np.ndarray, ...] = shaped(CODES, RANK)
    pull: tuple[np.ndarray, ...] = shaped(CODES, RANK)


def slopes(state: HospitalState, factors: Factors) -> tuple[HospitalState, Slopes]:
    """One hospital's part, its patients fitted to the factors; nothing of it is kept."""
    tensor, loss = state.tensor, loss_of(state.settings)
    patients, null = loss.fit_patients(tensor, [factors]), loss.null(tensor)
    found = []
    for n in range(len(factors)):
        mine = loss.contribution(tensor, [factors], patients, n, unit=unit_of(null))
        (sums,) = loss.sums(mine, [factors[0].shape[1]], null)
        found.append((loss.gradient(factors, n, sums), loss.pull(factors, n, sums)))
    gradients, pulls = zip(*found, strict=True)
    return state, Slopes(tuple(gradients), tuple(pulls))


def steepest(factors: Factors, total: Slopes, penalties: Sequence[FactorPenalty]) -> float:
    """The largest KKT residual of Ψ over the feature modes, at columns of unit length."""
    return max(
        kkt_residual(
            factor, gradient + penalty.gradient(factor), pull, nonnegative=penalty.nonnegative
        )
        for factor, gradient, pull, penalty in zip(
            factors, total.gradient, total.pull, penalties, strict=True
        )
    )
