"""Naming the codes of the final phenotypes, where a hospital's officer approved that.

Axes agreed on by tokens have positions, and every hospital knows the names of its own codes only.
After the release, each gives the names at the positions that the final phenotypes show, which it
works out itself; or nothing. This is no sum: it shows that the hospital has these codes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence

import numpy as np

from tripheno.errors import BadMessage
from tripheno.exchange.blind import BlindSession
from tripheno.exchange.communicator import Communicator
from tripheno.exchange.keys import SIGNATURE_BYTES
from tripheno.exchange.registry import Declaration, register
from tripheno.tensor.factors import leading_positions
from tripheno.vocabulary.axis import Axis

LABEL_BYTES = 400  # a code and its label
# half a character, which UTF-8 has no bytes for; what a terminal would obey
_UNWRITABLE = re.compile("[\ud800-\udfff\x00-\x08\x0b-\x1f\x7f-\x84\x86-\x9f]")

LABELS = register(
    Declaration(
        "labels", "gather", "codes of the final phenotypes that this hospital has, IN CLEAR", (),
        lambda plan: int(plan.labels or plan.machines),  # else nothing but a signature
        lambda plan, codes: SIGNATURE_BYTES + LABEL_BYTES * sum(codes.values()) * plan.labels,
    )
)  # fmt: skip

Positions = dict[str, list[int]]
"""Mode → the positions that the final phenotypes show."""

Named = dict[str, dict[int, tuple[str, str]]]
"""Mode → position → code and label."""


def shown_positions(
    axes: Sequence[Axis], factors: Sequence[np.ndarray], components: Sequence[int]
) -> Positions:
    """Where the leading codes of these components stand."""
    return {
        axis.mode: sorted(
            {int(n) for c in factor.T[list(components)] for n in leading_positions(c)}
        )
        for axis, factor in zip(axes, factors, strict=True)
    }


def own_labels(axes: Sequence[Axis], shown: Positions) -> bytes:
    """One hospital's message: the names of its own codes at these positions."""
    named = {}
    for axis in axes:
        known = {place: code for place, code in axis.known.items() if place in shown[axis.mode]}
        named[axis.mode] = {
            str(n): [_UNWRITABLE.sub(" ", name) for name in (code, axis.labels.get(code, ""))]
            for n, code in known.items()
        }
    return json.dumps(named, sort_keys=True, ensure_ascii=False).encode()


def share_labels(
    federation: Communicator,
    axes: Mapping[str, Sequence[Axis]],
    shown: Positions,
    approved: Mapping[str, bool],
    sessions: Mapping[str, BlindSession],
) -> Named:
    """The names that hospitals give, once the result is there; ``approved`` by whose officer.

    Each signs what it gives: else the coordinator could hand on other names.
    """

    def give(name: str) -> bytes:
        data = own_labels(axes[name], shown) if approved[name] else b""
        return sessions[name].signed(LABELS.name, data)

    reader = next(iter(sessions.values()))
    answers = {
        name: reader.verified(name, LABELS.name, data)
        for name, data in federation.gather("labels", LABELS, give).items()
    }
    return united_labels({name: data for name, data in answers.items() if data}, shown)


def united_labels(answers: Mapping[str, bytes], shown: Positions) -> Named:
    """All hospitals' names together; two names for one position are refused."""
    named: Named = {mode: {} for mode in shown}
    for hospital, data in answers.items():
        try:
            found = {
                (mode, int(place)): (str(code), str(label))
                for mode, places in json.loads(data).items()
                for place, (code, label) in places.items()
            }
        except (ValueError, TypeError, AttributeError, RecursionError):
            raise BadMessage("names that cannot be read", where=hospital) from None
        for (mode, place), (code, label) in found.items():
            if place not in shown.get(mode, ()) or len(code) + len(label) > LABEL_BYTES:
                raise BadMessage("names of codes that no phenotype shows", where=hospital)
            if _UNWRITABLE.search(code + label):
                raise BadMessage(
                    "names with characters that no file or screen takes", where=hospital
                )
            before = named[mode].get(place, (code, label))
            if before[0] != code:
                raise BadMessage("two hospitals name one position differently", where=hospital)
            named[mode][place] = (code, before[1] or label)
    return named
