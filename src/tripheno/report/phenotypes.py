"""A phenotype as a reader sees it: ranked codes with names, and how much they explain."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from tripheno.solver.solution import Solution
from tripheno.vocabulary.axis import Axis

CUMULATIVE_SHARE = 0.8  # a phenotype's codes are shown until they hold this share of its weight
MOST_CODES = 10


@dataclass(frozen=True)
class RankedCode:
    """One code of a phenotype; ``share`` is its part of the phenotype's weight in this mode."""

    position: int
    code: str | None
    name: str
    weight: float
    share: float


@dataclass(frozen=True)
class Phenotype:
    """One component in words."""

    number: int
    weight: float
    share: float
    codes: dict[str, tuple[RankedCode, ...]]
    name: str | None = None

    @property
    def title(self) -> str:
        """A given name, or the leading code of the mode that says most about a disease."""
        if self.name:
            return self.name
        speaking = ("diagnosis", "condition")
        modes = sorted(self.codes, key=lambda mode: mode not in speaking)
        leading = [self.codes[mode][0].name for mode in modes if self.codes[mode]]
        return leading[0] if leading else "empty"

    @property
    def words(self) -> str:
        """The leading names of every mode on one line."""
        parts = [", ".join(code.name for code in ranked[:2]) for ranked in self.codes.values()]
        return " + ".join(part for part in parts if part)


def phenotypes_of(solution: Solution, names: dict[int, str] | None = None) -> list[Phenotype]:
    """Every component of a solution as a phenotype, numbered from 1 by weight."""
    total = float((solution.weights**2).sum()) or 1.0
    found = []
    for r, weight in enumerate(solution.weights):
        pairs = zip(solution.axes, solution.factors, strict=True)
        codes = {axis.mode: tuple(_ranked(axis, factor[:, r])) for axis, factor in pairs}
        share = float(weight) ** 2 / total
        found.append(Phenotype(r + 1, float(weight), share, codes, (names or {}).get(r)))
    return found


def _ranked(axis: Axis, column: np.ndarray) -> Iterable[RankedCode]:
    """The codes with the largest weights, cut where they hold most of the column."""
    magnitude = np.abs(column)
    total = float(magnitude.sum())
    running = 0.0
    for position in np.argsort(-magnitude, kind="stable")[:MOST_CODES]:
        if magnitude[position] == 0.0 or running >= CUMULATIVE_SHARE * total:
            return
        running += float(magnitude[position])
        code = None if axis.codes is None else axis.codes[position]
        share = float(magnitude[position]) / total
        weight = float(column[position])
        yield RankedCode(int(position), code, axis.name(int(position)), weight, share)
