"""Longer steps that cannot hurt: extrapolation from one iterate to the next, guarded by Ψ.

The point at which the patients are fitted next lies beyond the last iterate, in the direction the
feature factors moved. Ψ of what comes out is known from the same totals; where it rose, the fit
goes back to the best iterate and steps shorter from then on (after Ang and Gillis, 2019). Patients
need no extrapolation: their rows are solved anew, so hospitals keep nothing more than before.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tripheno.solver.starts import Factors
from tripheno.tensor.factors import unit_columns

FIRST_STEP = 0.5
GROWTH = 1.05  # of β after a step that lowered Ψ,
CEILING_GROWTH = 1.01  # of the ceiling it may reach,
SHRINKING = 1.5  # and what β is divided by after one that did not
ROUND_OFF = 1e-12  # a rise of Ψ by this share is none: at an end it would be judged for ever


@dataclass(frozen=True)
class Momentum:
    """The best iterate so far and how far to step beyond the next."""

    factors: Factors
    objective: float = np.inf  # Ψ of ``factors``
    step: float = FIRST_STEP  # β
    ceiling: float = 1.0


def no_worse(objective: float, best: float) -> bool:
    """Whether an iterate may be accepted: the vote of one hospital."""
    return bool(objective <= best * (1.0 + ROUND_OFF))


def extrapolated(
    momentum: Momentum,
    found: Factors,
    objective: float,
    *,
    accept: bool,
    nonnegative: bool = True,
) -> tuple[Momentum, Factors]:
    """Take an iterate (unit columns, its Ψ) or leave it; and where to fit the patients next.

    Accepted, for Ψ did not rise: A + β(A − A_before), cut at zero where asked. Rejected: the best
    iterate itself, from which a plain step cannot raise Ψ.
    """
    if not accept:
        step = momentum.step / SHRINKING
        return replace(momentum, step=step, ceiling=step), momentum.factors
    first = not np.isfinite(momentum.objective)
    step = min(momentum.step if first else momentum.step * GROWTH, momentum.ceiling)
    ceiling = min(momentum.ceiling * CEILING_GROWTH, 1.0)
    after = Momentum(found, objective, step, ceiling)
    if first:
        return after, found
    points = [a + step * (a - b) for a, b in zip(found, momentum.factors, strict=True)]
    if nonnegative:
        points = [np.maximum(point, 0.0) for point in points]
    lost = [~point.any(axis=0) for point in points]
    return after, tuple(
        unit_columns(np.where(gone, a, point))[0]
        for a, point, gone in zip(found, points, lost, strict=True)
    )
