"""Names of the final phenotypes' codes: only those shown, only where it was approved."""

from __future__ import annotations

import numpy as np
import pytest

from kit.sessions import blind_sessions
from tripheno.errors import BadMessage, BadSignature
from tripheno.exchange.communicator import (
    Communicator,
    InProcess,
    LocalHospital,
    OpenGatekeeper,
    bundle,
    in_clear,
)
from tripheno.exchange.keys import SIGNATURE_BYTES
from tripheno.privacy.labels import (
    LABELS,
    own_labels,
    share_labels,
    shown_positions,
    united_labels,
)
from tripheno.vocabulary.axis import Axis

SHOWN = {"d": [0, 2, 5]}
AXES = {
    "a": [Axis("d", 6, ("I10", None, None, "E11", None, None), {"I10": "Hypertension"})],
    "b": [Axis("d", 6, (None, None, "E12", None, None, None))],
}
SIGNING = blind_sessions(("a", "b"))


class Renaming(InProcess):
    """A coordinator that hands on other names than it was given."""

    def __init__(self, change):
        super().__init__()
        self.change = change

    def exchange(self, how, step, parts):
        assert super().exchange(how, step, parts)
        return bundle(self.change(dict(parts)))


RENAMINGS = {
    "another code": lambda parts: {**parts, "b": parts["b"].replace(b"E12", b"E13")},
    "none, where there is one": lambda parts: {**parts, "b": b""},
    "those of another hospital": lambda parts: {**parts, "b": parts["a"]},
    "those of an attempt before": lambda parts: {
        **parts, "b": blind_sessions(("a", "b"), 2)["b"].signed("labels", parts["b"][:-64]),
    },
}  # fmt: skip


@pytest.mark.parametrize("change", RENAMINGS)
def test_a_coordinator_cannot_hand_on_other_names(change):
    federation = Communicator(
        ("a", "b"),
        {name: LocalHospital(None, OpenGatekeeper()) for name in "ab"},
        Renaming(RENAMINGS[change]),
    )
    with pytest.raises(BadSignature):
        share_labels(federation, AXES, SHOWN, {"a": True, "b": True}, SIGNING)


def test_a_hospital_names_its_own_codes_among_those_shown():
    heard = {}
    federation = in_clear(AXES, lambda step, name, answer, part: heard.update({name: part}))
    named = share_labels(federation, AXES, SHOWN, {"a": True, "b": True}, SIGNING)
    assert named == {"d": {0: ("I10", "Hypertension"), 2: ("E12", "")}}
    assert b"E11" not in heard["a"]


def test_what_is_released_leaves_every_hospital():
    heard = {}
    federation = in_clear(AXES, lambda step, name, answer, part: heard.update({name: (step, part)}))
    federation.release("labels", LABELS, lambda name: name.encode())
    assert heard == {"a": ("labels", b"a"), "b": ("labels", b"b")}


def test_without_approval_no_name_leaves():
    heard = {}
    federation = in_clear(AXES, lambda step, name, answer, part: heard.update({name: part}))
    named = share_labels(federation, AXES, SHOWN, {"a": False, "b": True}, SIGNING)
    assert len(heard["a"]) == SIGNATURE_BYTES
    assert named == {"d": {2: ("E12", "")}}


def test_the_positions_are_those_of_the_leading_codes_of_the_phenotypes_asked_for():
    factor = np.zeros((6, 2))
    factor[2, 0] = factor[4, 1] = 1.0
    assert shown_positions(AXES["a"], [factor], [0]) == {"d": [2]}


@pytest.mark.parametrize(
    "answer", [b"", b"[]", b'{"d": {"1": ["x", ""]}}', b'{"m": {"0": ["x", ""]}}', b'{"d": 3}',
               b'{"d": {"0": ["' + b"x" * 500 + b'", ""]}}'],
    ids=["nothing", "list", "position", "mode", "number", "long"],
)  # fmt: skip
def test_names_that_no_phenotype_shows_are_refused(answer):
    with pytest.raises(BadMessage):
        united_labels({"a": answer}, SHOWN)


@pytest.mark.parametrize("wild", ["\\ud800", "\\u001b[2J", "\\u0000", "\\u009b1m"])
def test_names_that_no_file_takes_or_that_a_terminal_would_obey_are_refused(wild):
    """One hospital's half of a character would be everybody's run that cannot be written."""
    for name in (f'["x{wild}", ""]', f'["x", "{wild}y"]'):
        with pytest.raises(BadMessage, match="characters"):
            united_labels({"a": f'{{"d": {{"0": {name}}}}}'.encode()}, SHOWN)


def test_an_honest_name_with_such_a_character_leaves_without_it():
    axis = Axis("d", 3, ("I10", "E11", "E12"), {"I10": "High\x1b[2J \u00fc\tpressure"})
    named = united_labels({"a": own_labels([axis], {"d": [0]})}, {"d": [0]})
    assert named == {"d": {0: ("I10", "High [2J \u00fc\tpressure")}}


def test_two_names_for_one_position_are_refused():
    with pytest.raises(BadMessage, match="differently"):
        united_labels({"a": b'{"d": {"0": ["x", ""]}}', "b": b'{"d": {"0": ["y", ""]}}'}, SHOWN)
