"""Codes that say nothing about a disease are set aside; what a hospital lacks is named.

Carriers (saline, flushes, bags, dextrose as a diluent) are marked by the records, so every hospital
drops its own before axes are agreed on: no message. A code that nearly every patient of the network
has is found in a sum, counted in coarse steps and only where many people of a hospital have it.
From the same sum a hospital sees, at home, which codes the others use often and it never does: its
zero there may be missing records, not missing disease.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tripheno.errors import NothingLeft
from tripheno.exchange.communicator import Communicator
from tripheno.exchange.messages import Contribution
from tripheno.exchange.registry import CODES, declared, shaped
from tripheno.protocol.agreed import SetAside
from tripheno.records.drugs import CARRIER
from tripheno.study.axes import Tensors, restricted
from tripheno.tensor.count_tensor import CountTensor
from tripheno.vocabulary.axis import Axis

ENOUGH = 50  # patients: in fewer, "nearly every patient" says little
OFTEN = 0.2  # share of the others' patients from which a code is often used
COUNTED_FROM = 0.1  # share of a hospital's patients from which it tells how many have a code
STEPS = 50  # of a hospital's patients, on average, in which all tell so
CARRIES = "only carries a drug"


class Aside(NamedTuple):
    """A code that takes no part, and why; its name is empty where it is not known here."""

    mode: str
    name: str
    why: str


class Lacking(NamedTuple):
    """A code that no patient of a hospital has, and the share of the others' patients who do."""

    mode: str
    name: str
    share: float


Lacks = dict[str, tuple[Lacking, ...]]


@declared("patients", "none: how many patients", lambda plan: int(plan.alignment is not None))
@dataclass(frozen=True)
class Patients(Contribution):
    """How many patients have a cell."""

    patients: float


@declared(
    "common", "codes of every mode: people who have it, where many do, in coarse steps",
    lambda plan: int(plan.alignment is not None),
)  # fmt: skip
@dataclass(frozen=True)
class PeopleInSteps(Contribution):
    """Roughly how many patients have each frequent code."""

    people: tuple[np.ndarray, ...] = shaped(CODES)


def without_carriers(tensors: Tensors) -> tuple[Tensors, tuple[Aside, ...]]:
    """Every hospital without the codes that its records mark as carriers."""
    found: Tensors = {}
    aside: dict[Aside, None] = {}
    for name, tensor in tensors.items():
        stays = [_no_carrier(axis) for axis in tensor.axes]
        for axis, keep in zip(tensor.axes, stays, strict=True):
            if not keep.any():
                raise NothingLeft("every code is a carrier", where=f"{name}, {axis.mode}")
            for place in np.flatnonzero(~keep):
                aside[Aside(axis.mode, axis.name(int(place)), CARRIES)] = None
        found[name] = _on_fewer(tensor, stays)
    return found, tuple(sorted(aside))


def _no_carrier(axis: Axis) -> np.ndarray:
    codes = axis.codes or ("",) * axis.size
    return np.array([not (code or "").startswith(CARRIER) for code in codes], dtype=bool)


def _on_fewer(tensor: CountTensor, stays: list[np.ndarray]) -> CountTensor:
    if all(keep.all() for keep in stays):
        return tensor
    fewer = [axis.kept(keep) for axis, keep in zip(tensor.axes, stays, strict=True)]
    return restricted(tensor, fewer)


def without_common(
    federation: Communicator, tensors: Tensors, rule: SetAside, fewest: int
) -> tuple[Tensors, tuple[Aside, ...], Lacks]:
    """Tensors without codes that too many of all patients have, and which hospital lacks what.

    The axes hold only codes that enough people have, so the sum shows no small count.
    """
    people = {name: tensor.people_at_positions() for name, tensor in tensors.items()}
    own = {name: float((np.diff(t.cells.starts) > 0).sum()) for name, t in tensors.items()}
    patients = federation.sum("patients", lambda name: Patients(own[name])).value.patients
    step = max(fewest, int(-(-patients // (STEPS * federation.size))))
    total = federation.sum(
        "common", lambda name: _in_steps(people[name], COUNTED_FROM * own[name], step)
    ).value
    axes = next(iter(tensors.values())).axes
    shares = [some / max(patients, 1.0) for some in total.people]
    stays = [
        _uncommon(axis, share, rule.common if patients >= ENOUGH else 1.0)
        for axis, share in zip(axes, shares, strict=True)
    ]
    aside = tuple(
        Aside(axis.mode, _known(axis, int(place)), f"{share[place]:.0%} of patients have it")
        for axis, share, keep in zip(axes, shares, stays, strict=True)
        for place in np.flatnonzero(~keep)
    )
    lacks = {
        name: _lacking(axes, total, patients - mine, [
            keep & (own_people == 0) for keep, own_people in zip(stays, people[name], strict=True)
        ])
        for name, mine in own.items()
    }  # fmt: skip
    found = {name: _on_fewer(tensor, stays) for name, tensor in tensors.items()}
    if aside:
        federation.resize({axis.mode: axis.size for axis in next(iter(found.values())).axes})
    return found, aside, {name: some for name, some in lacks.items() if some}


def _in_steps(people: list[np.ndarray], least: float, step: int) -> PeopleInSteps:
    """People per code that at least so many have, rounded down to steps that all hospitals share.

    Only shares near `OFTEN` and above matter. Full counts, or steps of the threshold for rare codes
    too, would tell peers how few people a hospital has behind a code; and steps of a hospital's own
    would tell peers, by what divides a total, which part of it is whose.
    """
    return PeopleInSteps(
        tuple(np.where(counts >= least, counts // step * step, 0) for counts in people)
    )


def _uncommon(axis: Axis, share: np.ndarray, most: float) -> np.ndarray:
    """Positions that stay: all where codes have no names, or where none would be left."""
    keep = np.asarray(share <= most)
    return keep if axis.codes is not None and keep.any() else np.ones(axis.size, dtype=bool)


def _lacking(
    axes: tuple[Axis, ...], total: PeopleInSteps, others: float, absent: list[np.ndarray]
) -> tuple[Lacking, ...]:
    """Codes absent here that at least ``OFTEN`` of so many other patients have."""
    if others <= 0:
        return ()
    return tuple(
        Lacking(axis.mode, _known(axis, int(place)), float(people[place] / others))
        for axis, people, none in zip(axes, total.people, absent, strict=True)
        for place in np.flatnonzero(none & (people >= OFTEN * others))
    )


def _known(axis: Axis, place: int) -> str:
    """A code's name, where this process knows it."""
    return axis.name(place) if axis.codes is not None and axis.codes[place] is not None else ""


def lacks_in_words(lacks: Mapping[str, tuple[Lacking, ...]]) -> dict[str, list[dict[str, object]]]:
    """For `run.json` and the page."""
    return {
        name: [{**one._asdict(), "share": round(one.share, 3)} for one in some]
        for name, some in lacks.items()
    }
