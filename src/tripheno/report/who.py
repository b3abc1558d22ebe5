"""Who has a phenotype, and how the outcome goes with it: from counts that may be shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from tripheno.evaluation.association import association
from tripheno.privacy.subgroups import Group
from tripheno.report.phenotypes import Phenotype

Groups = Mapping[str, Sequence[Group]]
OUTCOME, YES, NO = "outcome", "died", "did not die"


def who_has(groups: Groups, number: int) -> dict[str, dict[str, list[dict[str, Any]]]]:
    """Of whom → trait → its groups with how many people, how many have the phenotype, the share.

    A trait of which nothing is known is left out, and so is a group without people.
    """
    found: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for whom, every in groups.items():
        for trait, same in groupby(every, key=lambda group: group.trait):
            rows = [_row(group, number) for group in same if group.people != 0]
            if any(row["name"] != "not known" for row in rows):
                found.setdefault(whom, {})[trait] = rows
    return found


def _row(group: Group, number: int) -> dict[str, Any]:
    people, having = group.people, group.having[number - 1]
    share = having / people if people and having is not None else None
    return {"name": group.name, "people": people, "having": having, "share": share}


def outcomes(groups: Groups, phenotypes: Sequence[Phenotype]) -> list[dict[str, Any]]:
    """Phenotypes that can be relied on beside the outcome, where all four counts may be shown."""
    rows = []
    for whom, every in groups.items():
        known = {
            name: group
            for group in every
            for name in (YES, NO)
            if group.trait == OUTCOME and group.name.startswith(name)  # “did not die or not known”
        }
        for p in phenotypes:
            if p.grade is None or not p.worth_a_name:
                continue
            cells = [
                count for name in (YES, NO)
                for count in (known[name].having[p.number - 1], known[name].people)
            ]  # fmt: skip
            shown = [count for count in cells if count is not None]
            if len(shown) < len(cells):
                continue
            with_died, died, with_lived, lived = shown
            others = died - with_died, lived - with_lived
            found = association(with_died, with_lived, *others)
            if found is not None:
                counts = {"having": (with_died, with_died + with_lived),
                          "others": (others[0], sum(others))}  # fmt: skip
                rows.append({"whom": whom, "phenotype": p, **counts, **found._asdict()})
    return rows
