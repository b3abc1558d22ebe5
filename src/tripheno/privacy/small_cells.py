"""Codes that too few people have never enter; counts too small to show are not shown.

People are counted, not rows. The count is network-wide and goes through the one primitive, capped
at the threshold: the server learns which positions reach it, and below it how far they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tripheno.tensor.count_tensor import CountTensor


def people_per_code(tensor: CountTensor) -> dict[str, dict[str, int]]:
    """Mode → code → people, for the modes that have codes."""
    return {
        axis.mode: {code: int(people[place]) for place, code in axis.known.items()}
        for axis, people in zip(tensor.axes, tensor.people_at_positions(), strict=True)
        if axis.codes is not None
    }


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
