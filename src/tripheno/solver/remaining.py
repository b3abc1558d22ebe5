"""How long a run may still take: from its last iterations and from how it comes to rest.

The change of Ψ from one iteration to the next falls, once a run has found its way, by about the
same factor each time. The line through its logarithms meets the tolerance at the iteration where
the run will stop; a run whose change does not fall goes on to the limit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from statistics import median
from typing import NamedTuple

from tripheno.solver.settings import SolverSettings
from tripheno.solver.solution import Iteration

LOOKED_AT = 12  # of the last iterations
FEWEST = 4  # changes, before a trend is believed
QUIET = 2  # changes below the tolerance before a run stops
LEAST = 1e-300


class Forecast(NamedTuple):
    """What is left, and at most."""

    iterations: int
    seconds: float
    most_seconds: float

    def in_words(self) -> str:
        """For a person who waits."""
        about, most = spoken(self.seconds), spoken(self.most_seconds)
        return f"about {about} left" + (f", at most {most}" if most != about else "")


@dataclass
class Outlook:
    """Hears of every iteration and says what is left."""

    settings: SolverSettings

    def __post_init__(self) -> None:
        self._lines: list[Iteration] = []
        self._residuals: list[float] = []

    def hear(self, line: Iteration) -> Forecast:
        """One more iteration is done; lines that come again replace those they repeat."""
        self._lines = [one for one in self._lines if one.iteration < line.iteration] + [line]
        self._lines = self._lines[-LOOKED_AT - 1 :]
        left = self.settings.max_iter - line.iteration
        pace = _pace(self._lines)
        needed = min(max(self._needed(), 0), max(left, 0))
        return Forecast(needed, needed * pace, max(left, 0) * pace)

    def hear_residuals(self, primal: float, dual: float) -> None:
        """The relative residuals of the last iteration; a method without any says zero."""
        if max(primal, dual) > 0.0:
            self._residuals = [*self._residuals, max(primal, dual)][-LOOKED_AT:]

    def _needed(self) -> int:
        """Iterations until both tests of the stopping rule hold; the limit if one never will."""
        settings = self.settings
        if settings.variant == "released":  # has no stopping rule
            return settings.max_iter
        changes = [
            abs(a.objective - b.objective) / max(abs(a.objective), LEAST)
            for a, b in pairwise(self._lines)
        ]
        for_objective = until(changes, settings.tol) + QUIET - quiet_at_the_end(changes, settings)
        residuals, small = self._residuals, settings.residual_tolerance
        for_residuals = until(residuals, small) if residuals else 0.0
        return math.ceil(min(max(for_objective, for_residuals), settings.max_iter))


def quiet_at_the_end(changes: Sequence[float], settings: SolverSettings) -> int:
    """How many of the last changes were below the tolerance already."""
    found = 0
    for change in reversed(changes):
        if change >= settings.tol:
            break
        found += 1
    return min(found, QUIET)


def until(values: Sequence[float], wanted: float) -> float:
    """Steps until values that fall by a factor are below ``wanted``; infinite where they do not.

    The factor is the median over all pairs (Theil and Sen), which a few outliers do not move.
    """
    if values and values[-1] < wanted:
        return 0.0
    if len(values) < FEWEST:
        return math.inf
    logs = [math.log(max(value, LEAST)) for value in values]
    points = list(enumerate(logs))
    slope = median((b - a) / (n - m) for (m, a), (n, b) in combinations(points, 2))
    if slope >= 0.0:
        return math.inf
    last = len(logs) - 1
    level = median(value - slope * (n - last) for n, value in points)
    return max((math.log(wanted) - level) / slope, 0.0)


def _pace(lines: Sequence[Iteration]) -> float:
    """Seconds of one iteration, of late: a pause in between does not count."""
    steps = [b.seconds - a.seconds for a, b in pairwise(lines)]
    return median(steps) if steps else lines[-1].seconds / max(lines[-1].iteration, 1)


def spoken(seconds: float) -> str:
    """Seconds, minutes or hours, as one says them."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5_400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3_600:.1f} h"
