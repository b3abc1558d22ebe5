"""How an outcome goes with a phenotype: two risks, their ratio, and an interval.

RR = (a / (a + b)) / (c / (c + d)), where a of those who have the phenotype have the outcome and b
have not, c and d of the others; log RR ± z √(1/a − 1/(a+b) + 1/c − 1/(c+d)) (Katz
and others, 1978).
"""

from __future__ import annotations

from math import exp, log, sqrt
from typing import NamedTuple

NINETY = 1.6448536269514722  # z of a two-sided interval of 90 %


class Association(NamedTuple):
    """Risks with and without, and their ratio with a 90 % interval; crude, nothing is adjusted."""

    risk: float
    risk_of_others: float
    ratio: float
    low: float
    high: float


def association(a: int, b: int, c: int, d: int) -> Association | None:
    """Of the four counts; none where a count is zero, for then the interval has no end."""
    if min(a, b, c, d) < 1:
        return None
    risk, other = a / (a + b), c / (c + d)
    spread = NINETY * sqrt(1 / a - 1 / (a + b) + 1 / c - 1 / (c + d))
    middle = log(risk / other)
    return Association(risk, other, risk / other, exp(middle - spread), exp(middle + spread))
