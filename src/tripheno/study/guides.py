"""Guides of a study whose hospitals each know only their own codes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tripheno.exchange.communicator import Communicator
from tripheno.exchange.messages import Contribution
from tripheno.exchange.registry import CODES, RANK, declared, shaped
from tripheno.solver.guides import Guide
from tripheno.solver.settings import SolverSettings
from tripheno.vocabulary.axis import Axis


@declared(
    "guides", "codes of every mode × phenotypes in mind: whether a hospital has a code named there",
    lambda plan: int(plan.guided),
)  # fmt: skip
@dataclass(frozen=True)
class GuidePlaces(Contribution):
    """1 where this hospital has a code of a guide (column); added up over hospitals."""

    places: tuple[np.ndarray, ...] = shaped(CODES, RANK)


def resolved(
    federation: Communicator, axes: Mapping[str, Sequence[Axis]], settings: SolverSettings
) -> SolverSettings:
    """The same settings with guides by what all hospitals call a position alike."""
    if not settings.guides:
        return settings

    def own(name: str) -> GuidePlaces:
        found = []
        for axis in axes[name]:
            places = np.zeros((axis.size, settings.rank))
            for r, guide in enumerate(settings.guides):
                places[guide.positions(axis)[0], r] = 1.0
            found.append(places)
        return GuidePlaces(tuple(found))

    total = federation.sum("guides", own).value
    some = next(iter(axes.values()))
    guides = tuple(
        Guide(guide.name, {
            axis.mode: tuple(str(axis.keys[n]) for n in np.flatnonzero(places[:, r] > 0.5).tolist())
            for axis, places in zip(some, total.places, strict=True)
            if (places[:, r] > 0.5).any()
        })
        for r, guide in enumerate(settings.guides)
    )  # fmt: skip
    return replace(settings, guides=guides)
