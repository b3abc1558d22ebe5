"""How many patients have a phenotype, and which of those numbers may be shown.

Who has one is said in ``evaluation/membership.py``, for hospitals count at home. Codes that too few
people have never enter: how many are too few is agreed on (``Thresholds`` in
``protocol/agreed.py``), which codes stay is a sum over all hospitals (``study/axes.py``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tripheno.protocol.limits import Thresholds

MIN_CELL = Thresholds.min_cell_count  # counts of people below it are not shown


class Shown(NamedTuple):
    """Counts as they may be shown: ``None`` stands for a hidden one."""

    parts: tuple[int | None, ...]
    total: int | None


def shown_counts(counts: Sequence[int], fewest: int) -> Shown:
    """Counts per hospital with their total, from which no hidden part can be worked out.

    Parts from 1 to ``fewest`` − 1 are hidden. So that the total does not give them away, the next
    smallest parts are hidden too, until at least two are and what is left over is ambiguous by
    ``fewest``; where there is nothing more to hide, the total goes as well.
    """
    hidden = {n for n, count in enumerate(counts) if 0 < count < fewest}
    if not hidden:
        return Shown(tuple(counts), sum(counts))
    others = sorted((n for n in range(len(counts)) if counts[n] >= fewest), key=lambda n: counts[n])

    def safe() -> bool:
        slack = sum(counts[n] for n in hidden) - len(hidden)
        return len(hidden) > 1 and slack >= fewest - 1

    while not safe() and others:
        hidden.add(others.pop(0))
    parts = tuple(None if n in hidden else count for n, count in enumerate(counts))
    return Shown(parts, sum(counts) if safe() else None)


@dataclass(frozen=True)
class Prevalence:
    """How many patients have one phenotype; ``None`` is a number that may not be shown.

    At a coordinator, who knows sums only, there are no hospitals in it.
    """

    patients: dict[str, int | None]
    share: dict[str, float | None]
    total: int | None
    min_cell: int = MIN_CELL
    total_share: float | None = None

    @property
    def hidden(self) -> tuple[str, ...]:
        """The hospitals whose number is withheld."""
        return tuple(name for name, count in self.patients.items() if count is None)


def shown_prevalence(
    counts: Mapping[str, int], sizes: Mapping[str, int], min_cell: int = MIN_CELL
) -> Prevalence:
    """What may be shown of one phenotype's counts, the hospitals' sizes being known.

    A hospital's count is withheld when 1 to ``min_cell`` − 1 people have the phenotype, or do not
    have it. Further counts, and the total where need be, are withheld until no hidden one follows
    from what is shown, neither of those who have it nor of the others.
    """
    names = list(counts)
    having = shown_counts([int(counts[name]) for name in names], min_cell)
    lacking = shown_counts([sizes[name] - int(counts[name]) for name in names], min_cell)
    patients: dict[str, int | None] = {
        name: None if have is None or lack is None else have
        for name, have, lack in zip(names, having.parts, lacking.parts, strict=True)
    }
    share = {
        name: None if count is None else count / max(sizes[name], 1)
        for name, count in patients.items()
    }
    total = None if lacking.total is None else having.total
    if total is not None and tells(patients, sizes, total, min_cell):
        total = None
    everyone = max(sum(sizes[name] for name in names), 1)
    return Prevalence(patients, share, total, min_cell, None if total is None else total / everyone)


def tells(
    patients: Mapping[str, int | None], sizes: Mapping[str, int], total: int, min_cell: int
) -> bool:
    """Whether a total leaves a hidden count fewer than ``min_cell`` possible values.

    The hidden counts add up to a known number, and none is larger than its hospital.
    """
    hidden = [name for name, count in patients.items() if count is None]
    rest = total - sum(count for count in patients.values() if count is not None)
    room = sum(sizes[name] for name in hidden)
    return any(
        min(size, rest) - max(0, rest - (room - size)) < min(min_cell - 1, size)
        for size in (sizes[name] for name in hidden)
    )


def prevalence_of(having: Mapping[str, np.ndarray], min_cell: int = MIN_CELL) -> list[Prevalence]:
    """One :class:`Prevalence` per phenotype, where every hospital's patients are at hand."""
    counts = {name: own.sum(axis=0) for name, own in having.items()}
    sizes = {name: len(own) for name, own in having.items()}
    rank = next(iter(having.values())).shape[1]
    return [
        shown_prevalence({name: int(c[r]) for name, c in counts.items()}, sizes, min_cell)
        for r in range(rank)
    ]


def prevalence_of_sums(
    totals: Sequence[int | None], patients: int, min_cell: int = MIN_CELL
) -> list[Prevalence]:
    """One :class:`Prevalence` per phenotype from the sum over all hospitals, and no more."""

    def shown(total: int | None) -> Prevalence:
        if total is None or any(0 < people < min_cell for people in (total, patients - total)):
            return Prevalence({}, {}, None, min_cell, None)
        return Prevalence({}, {}, total, min_cell, total / max(patients, 1))

    return [shown(total) for total in totals]


def left_over(shown: Sequence[int | None], without: int | None, patients: int) -> bool:
    """Whether patients with a phenotype outnumber those of the counts shown.

    Then somebody has one that is hidden, and how many is known to be at least so many.
    """
    having = 0 if without is None else patients - without
    return None in shown and having > sum(count or 0 for count in shown)
