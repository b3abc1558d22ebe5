"""What hospitals' programs know alike to round-off becomes one and the same, to the last bit.

Machines round differently. Where a number is compared with a bound, or put into words, all have to
hold the same one: so it is a sum of everybody's, or the first hospital's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from tripheno.errors import DriftedApart
from tripheno.exchange.communicator import DRIFT, Communicator
from tripheno.exchange.messages import Contribution
from tripheno.exchange.registry import CODES, RANK, MessagePlan, declared, shaped
from tripheno.solver.starts import Factors

C = TypeVar("C", bound=Contribution)


def _times(plan: MessagePlan) -> int:
    return plan.fits + plan.tournaments * int(plan.guided or plan.bias)


@declared(
    "factors", "codes × phenotypes: what a fit ended in, which follows from sums; for its mean",
    _times,
)  # fmt: skip
@dataclass(frozen=True)
class SharedFactors(Contribution):
    """The factors of a fit, of every hospital or of the first one."""

    factors: tuple[np.ndarray, ...] = shaped(CODES, RANK)


def mean_of(federation: Communicator, step: str, own: C) -> C:
    """The mean of what every hospital's program found: all go on with the same numbers."""
    total = federation.sum(step, lambda _name: own).value.arrays()
    return type(own).from_arrays({name: part / federation.size for name, part in total.items()})


def first_of(federation: Communicator, step: str, own: C) -> C:
    """What the first hospital's program found: where a mean of two answers would be neither."""
    nothing = type(own).from_arrays({n: np.zeros_like(part) for n, part in own.arrays().items()})
    return federation.sum(
        step, lambda name: own if name == federation.hospitals[0] else nothing
    ).value


def settled(federation: Communicator, step: str, factors: Factors) -> Factors:
    """The factors that all go on with; refused where any entry is apart."""
    mean = mean_of(federation, step, SharedFactors(factors)).factors
    apart = max(float(np.abs(a - b).max(initial=0.0)) for a, b in zip(factors, mean, strict=True))
    if apart > DRIFT:
        raise DriftedApart("the hospitals' programs no longer agree", where=f"step {step[:80]}")
    return mean
