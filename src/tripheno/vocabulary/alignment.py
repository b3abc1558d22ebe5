"""Bring hospitals with different code lists onto the same axes, in a process that holds them all.

`align_plainly` unites the lists, which shows every hospital's list to whoever unites them;
`align_privately` runs a protocol in which each hospital learns its own positions only. The axes
that come out are the same: a simulation knows the codes, and orders them by code, so that runs
can be compared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tripheno.errors import BadShape
from tripheno.vocabulary.aligners import Aligner, People
from tripheno.vocabulary.axis import Axis, union
from tripheno.vocabulary.tokens import Places


def align_plainly(axes_by_hospital: Sequence[Sequence[Axis]]) -> tuple[Axis, ...]:
    """One axis per mode that holds every code any hospital has."""
    _check_modes(axes_by_hospital)
    return tuple(union(axes) for axes in zip(*axes_by_hospital, strict=True))


def uncounted(axes: Sequence[Axis]) -> People:
    """Mode → code → 0: for alignments that ask for codes and count nobody."""
    return {axis.mode: dict.fromkeys(axis.codes, 0) for axis in axes if axis.codes is not None}


def align_privately(
    axes_by_hospital: Mapping[str, Sequence[Axis]],
    people: Mapping[str, People],
    aligner: Aligner,
    *,
    by_code: bool = True,
) -> tuple[Axis, ...]:
    """The axes that a private alignment gives, put into the order of their codes.

    With ``by_code`` false they stay in the protocol's own order, which nobody chose: so that a run
    of separate machines with the same seed finds the same factors, bit for bit. Modes whose
    positions are their codes (ready-made tensors) need no alignment.
    """
    _check_modes(list(axes_by_hospital.values()))
    together = {axes[0].mode: axes for axes in zip(*axes_by_hospital.values(), strict=True)}
    coded = {mode for mode, axes in together.items() if all(a.codes is not None for a in axes)}
    asked = {
        name: {mode: codes for mode, codes in modes.items() if mode in coded}
        for name, modes in people.items()
    }
    places = aligner.align(asked) if coded else {}
    found = []
    for mode, axes in together.items():
        united = union(axes)
        if mode in coded:
            at = _codes_at(mode, asked, places)
            kept = tuple(sorted(at.values()) if by_code else (at[n] for n in sorted(at)))
            united = Axis(mode, len(kept), kept, united.labels)
        found.append(united)
    return tuple(found)


def _codes_at(
    mode: str, hospitals: Mapping[str, People], places: Mapping[str, Places]
) -> dict[int, str]:
    """Position → code, put together from what every hospital learnt; all must agree."""
    at: dict[int, str] = {}
    for name, people in hospitals.items():
        for code, position in zip(people[mode], places[name].positions[mode], strict=True):
            if position >= 0 and at.setdefault(int(position), code) != code:
                raise BadShape("two codes stand at one position", where=mode)
    return at


def _check_modes(axes_by_hospital: Sequence[Sequence[Axis]]) -> None:
    orders = {tuple(axis.mode for axis in axes) for axes in axes_by_hospital}
    if len(orders) != 1:
        raise BadShape(
            f"hospitals have different modes: {sorted(map(list, orders))}",
            fix="ingest every hospital with the same --modes",
        )
