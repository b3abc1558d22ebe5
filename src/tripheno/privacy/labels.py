"""Naming the codes of the final phenotypes, where hospitals approved that.

Axes agreed on by tokens have positions and no names. After the run the server asks for the names at
the positions that the final phenotypes show; a hospital answers for the codes it has, if its
approved manifest lists the message. This is no sum: it shows that the hospital has these codes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from tripheno.errors import BadMessage, GateRefused
from tripheno.privacy.manifest import Manifest
from tripheno.privacy.outgoing import LABEL_BYTES
from tripheno.vocabulary.axis import Axis

STEP = "labels"

Positions = dict[str, list[int]]
"""Mode → the positions whose names are asked for."""

Named = dict[str, dict[int, tuple[str, str]]]
"""Mode → position → code and label."""


def ask_labels(positions: Mapping[str, Sequence[int]]) -> bytes:
    """The server's question."""
    asked = {mode: sorted(map(int, places)) for mode, places in positions.items()}
    return json.dumps(asked, sort_keys=True).encode()


def answer_labels(
    question: bytes, own: Mapping[str, Mapping[int, str]], axes: Sequence[Axis], manifest: Manifest
) -> bytes:
    """A hospital's answer: names of its own codes among those asked for.

    ``own`` are its codes by mode and position on the agreed axes; ``axes`` have the labels.
    """
    if not manifest.labels:
        raise GateRefused(
            "names of codes were not approved", where=manifest.hospital,
            fix="run `tripheno preview --labels`, then approve",
        )  # fmt: skip
    labels = {axis.mode: axis.labels for axis in axes}
    named = {
        mode: {
            str(place): [own[mode][place], labels[mode].get(own[mode][place], "")]
            for place in places
            if place in own.get(mode, {})
        }
        for mode, places in _read(question).items()
    }
    return json.dumps(named, sort_keys=True, ensure_ascii=False).encode()


def _read(question: bytes) -> Positions:
    try:
        found = json.loads(question)
        return {str(mode): [int(place) for place in places] for mode, places in found.items()}
    except (ValueError, TypeError, AttributeError, RecursionError):
        raise BadMessage("a question for names that cannot be read", where=STEP) from None


def united_labels(answers: Mapping[str, bytes], asked: Mapping[str, Sequence[int]]) -> Named:
    """All hospitals' names together; two names for one position are refused."""
    named: Named = {mode: {} for mode in asked}
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
            if place not in asked.get(mode, ()) or len(code) + len(label) > LABEL_BYTES:
                raise BadMessage("names that were not asked for", where=hospital)
            before = named[mode].get(place, (code, label))
            if before[0] != code:
                raise BadMessage("two hospitals name one position differently", where=hospital)
            named[mode][place] = (code, before[1] or label)
    return named
