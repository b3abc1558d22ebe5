"""Where a phenotype comes from: some hospitals' own models, or only all hospitals together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from tripheno.evaluation.recovery import FOUND_FROM
from tripheno.solver.solution import Solution
from tripheno.tensor.factors import similarity_matrix

Kind = Literal["everywhere", "several", "one", "together"]


@dataclass(frozen=True)
class Origin:
    """How alike a phenotype is to the nearest one of each hospital's own model."""

    similarity: dict[str, float]
    differs: bool = True  # beyond what a random split of the patients shows

    @property
    def hospitals(self) -> tuple[str, ...]:
        """The hospitals whose own model has it too."""
        return tuple(name for name, value in self.similarity.items() if value >= FOUND_FROM)

    @property
    def kind(self) -> Kind:
        """Found everywhere, at several hospitals, at one, or only together."""
        found = len(self.hospitals)
        if found == 0:
            return "together"
        if found == len(self.similarity):
            return "everywhere"
        return "one" if found == 1 else "several"

    @property
    def text(self) -> str:
        """The same in words."""
        if self.kind == "together":
            return "Only together: in no hospital’s own model"
        if self.kind == "everywhere":
            return "In every hospital’s own model"
        if not self.differs:
            return "Hospitals do not differ in it more than random groups of their patients"
        *first, last = self.hospitals
        names = f"{', '.join(first)} and {last}, each" if first else last
        return f"Also found by {names} alone"


def origins(
    solution: Solution, own: Mapping[str, Solution], differ: np.ndarray | None = None
) -> list[Origin]:
    """The origin of every component; without a word on chance, no difference is claimed."""
    nearest = {
        name: similarity_matrix(solution.factors, model.factors).max(axis=1)
        for name, model in own.items()
    }
    rank = len(solution.weights)
    claimed = np.zeros(rank, dtype=bool) if differ is None else differ
    return [Origin({name: float(np.round(s[r], 6)) for name, s in nearest.items()},
                   bool(claimed[r])) for r in range(rank)]  # fmt: skip
