"""Which counts of subgroups may be shown, the totals being known.

How many patients there are and how many have a phenotype stands elsewhere on the page, so a hidden
group must not follow from the others: the next smallest groups are hidden with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tripheno.privacy.prevalence import shown_counts, tells


@dataclass(frozen=True)
class Group:
    """Patients who share a trait; ``None`` is a number that may not be shown."""

    trait: str
    name: str
    people: int | None
    having: tuple[int | None, ...]  # one for each phenotype


def shown_groups(
    traits: Mapping[str, Sequence[str]],
    people: Sequence[int],
    having: Sequence[Sequence[int]],
    fewest: int,
) -> tuple[Group, ...]:
    """Groups × phenotypes as they may be shown; ``people`` and ``having`` follow ``traits``."""
    found, first = [], 0
    for trait, names in traits.items():
        places = range(first, first + len(names))
        first += len(names)
        sizes = [people[g] for g in places]
        shown = shown_counts(sizes, fewest)
        parts = shown.parts if shown.total is not None else (None,) * len(names)
        columns = [
            _shown([having[g][r] for g in places], sizes, parts, fewest)
            for r in range(len(having[0]))
        ]
        found += [
            Group(trait, name, parts[n], tuple(column[n] for column in columns))
            for n, name in enumerate(names)
        ]
    return tuple(found)


def _shown(
    counts: Sequence[int], sizes: Sequence[int], parts: Sequence[int | None], fewest: int
) -> list[int | None]:
    """One phenotype's counts over the groups of one trait.

    Hidden are 1 to ``fewest`` − 1 who have it, or who do not, and groups whose size is hidden; then
    more groups, the smallest first, until the known total leaves every hidden count open.
    """
    hidden = {
        n for n, (count, size) in enumerate(zip(counts, sizes, strict=True))
        if parts[n] is None or any(0 < few < fewest for few in (count, size - count))
    }  # fmt: skip
    full = [n for n, size in enumerate(sizes) if size and n not in hidden]  # empty hide nothing
    others = sorted(full, key=lambda n: sizes[n])
    while hidden and others and _follows(counts, sizes, hidden, fewest):
        hidden.add(others.pop(0))
    return [None if n in hidden else count for n, count in enumerate(counts)]


def _follows(counts: Sequence[int], sizes: Sequence[int], hidden: set[int], fewest: int) -> bool:
    names = [str(n) for n in range(len(counts))]
    shown = {name: None if n in hidden else counts[n] for n, name in enumerate(names)}
    return tells(shown, dict(zip(names, sizes, strict=True)), sum(counts), fewest)
