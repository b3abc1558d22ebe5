"""Who has a phenotype: patients by age, sex, year and outcome.

Every hospital counts its own; the counts of all are added blindly, and small ones are withheld
before anything is written.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tripheno.evaluation.membership import COUNT_BITS
from tripheno.exchange.communicator import Communicator
from tripheno.exchange.messages import Contribution
from tripheno.exchange.registry import COMPONENTS, declared, shaped
from tripheno.privacy.subgroups import Group, shown_groups
from tripheno.records.traits import GROUPS, TRAITS

Traits = Mapping[str, np.ndarray]
"""Hospital → patients × traits, the place of each patient's group."""


@declared(
    "subgroups",
    "groups of patients by age, sex, year and outcome × phenotypes: how many they are and how many "
    "have each, all hospitals together",
    lambda plan: int(plan.subgroups),
)
@dataclass(frozen=True)
class Subgroups(Contribution):
    """How many patients are in each group, and how many of them have each phenotype."""

    people: np.ndarray = shaped(GROUPS, least=COUNT_BITS)
    having: np.ndarray = shaped(GROUPS, COMPONENTS, least=COUNT_BITS)


def counted_groups(traits: np.ndarray, having: np.ndarray) -> Subgroups:
    """What one hospital contributes; ``having`` is patients × phenotypes."""
    people, counts = [], []
    for place, names in enumerate(TRAITS.values()):
        inside = traits[:, place, None] == np.arange(len(names))
        people.append(inside.sum(axis=0))
        counts.append(inside.T.astype(np.float64) @ having)
    return Subgroups(np.concatenate(people).astype(np.float64), np.vstack(counts))


def groups_of(counts: Subgroups, fewest: int) -> tuple[Group, ...]:
    """The counts as they may be shown.

    A few patients of whom a trait is not known are counted with the group before them: alone they
    would be hidden, and to hide them the next larger group as well.
    """
    traits: dict[str, tuple[str, ...]] = {}
    people, having = [], []
    first = 0
    for trait, names in TRAITS.items():
        rows = slice(first, first := first + len(names))
        sizes, counted = counts.people[rows], counts.having[rows]
        traits[trait] = names
        if 0 < round(sizes[-1]) < fewest:
            traits[trait] = (*names[:-2], f"{names[-2]} or {names[-1]}")
            sizes, counted = (
                np.concatenate([c[:-2], c[-2:].sum(0)[None]]) for c in (sizes, counted)
            )
        people += np.rint(sizes).astype(int).tolist()
        having += np.rint(counted).astype(int).tolist()
    return shown_groups(traits, people, having, fewest)


def subgroups(
    federation: Communicator, traits: Traits, having: Mapping[str, np.ndarray], fewest: int
) -> tuple[Group, ...]:
    """Groups of all hospitals' patients together."""
    total = federation.sum("subgroups", lambda name: counted_groups(traits[name], having[name]))
    return groups_of(total.value, fewest)
