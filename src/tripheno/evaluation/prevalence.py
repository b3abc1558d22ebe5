"""Who has a phenotype, how many there are, and which of those numbers may be shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tripheno.solver.diagnosis import carriers

MIN_CELL = 11  # counts of people below it are not shown


@dataclass(frozen=True)
class Prevalence:
    """How many patients have one phenotype; ``None`` is a number that may not be shown."""

    patients: dict[str, int | None]
    share: dict[str, float | None]
    total: int | None
    min_cell: int = MIN_CELL

    @property
    def hidden(self) -> tuple[str, ...]:
        """The hospitals whose number is withheld."""
        return tuple(name for name, count in self.patients.items() if count is None)


def shown_prevalence(
    counts: Mapping[str, int], sizes: Mapping[str, int], min_cell: int = MIN_CELL
) -> Prevalence:
    """What may be shown of one phenotype's counts.

    A hospital's count is withheld when fewer than ``min_cell`` people have the phenotype (none
    included), or when fewer than that, but someone, do not have it. The total is given only when no
    part of it is withheld: from a total and all parts but one the last part follows, and the sum of
    two small parts is small itself.
    """
    patients: dict[str, int | None] = {}
    for name, count in counts.items():
        others = sizes[name] - count
        small = count < min_cell or 0 < others < min_cell
        patients[name] = None if small else int(count)
    visible = [count for count in patients.values() if count is not None]
    whole = len(visible) == len(patients)
    share = {
        name: None if count is None else count / sizes[name] for name, count in patients.items()
    }
    return Prevalence(patients, share, sum(visible) if whole else None, min_cell)


def prevalence_of(
    patient_factors: Mapping[str, np.ndarray],
    features: Sequence[np.ndarray],
    min_cell: int = MIN_CELL,
) -> list[Prevalence]:
    """One :class:`Prevalence` per phenotype, from each hospital's own count of its patients."""
    counts = {
        name: carriers(factor, features).sum(axis=0) for name, factor in patient_factors.items()
    }
    sizes = {name: len(factor) for name, factor in patient_factors.items()}
    rank = features[0].shape[1]
    return [
        shown_prevalence({name: int(c[r]) for name, c in counts.items()}, sizes, min_cell)
        for r in range(rank)
    ]
