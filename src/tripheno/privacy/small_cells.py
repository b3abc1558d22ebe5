"""Codes that too few people have never enter; counts too small to show are not shown.

How many are too few is agreed on (`Thresholds` in `protocol/agreed.py`). Which codes stay is a sum
over all hospitals (`study/axes.py`, `privacy/vetoes.py`); here is what may be shown of counts that
somebody knows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


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
