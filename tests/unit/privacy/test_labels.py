"""Names of the final phenotypes' codes: only those asked for, only where it was approved."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tripheno.errors import BadMessage, GateRefused
from tripheno.privacy.labels import answer_labels, ask_labels, united_labels
from tripheno.vocabulary.axis import Axis

ASKED = {"d": [0, 2, 5]}
AXES = [Axis("d", 2, ("I10", "E11"), {"I10": "Hypertension"})]
YES = SimpleNamespace(labels=True, hospital="a")


def test_a_hospital_names_its_own_codes_among_those_asked_for():
    one = answer_labels(ask_labels(ASKED), {"d": {0: "I10", 3: "E11"}}, AXES, YES)
    two = answer_labels(ask_labels(ASKED), {"d": {2: "E11"}}, AXES, YES)
    named = united_labels({"a": one, "b": two}, ASKED)
    assert named == {"d": {0: ("I10", "Hypertension"), 2: ("E11", "")}}
    assert b"E11" not in one


def test_without_approval_no_name_leaves():
    no = SimpleNamespace(labels=False, hospital="a")
    with pytest.raises(GateRefused, match="not approved"):
        answer_labels(ask_labels(ASKED), {"d": {0: "I10"}}, AXES, no)


@pytest.mark.parametrize(
    "answer", [b"", b"[]", b'{"d": {"1": ["x", ""]}}', b'{"m": {"0": ["x", ""]}}', b'{"d": 3}',
               b'{"d": {"0": ["' + b"x" * 500 + b'", ""]}}']
)  # fmt: skip
def test_names_nobody_asked_for_are_refused(answer):
    with pytest.raises(BadMessage):
        united_labels({"a": answer}, ASKED)


def test_two_names_for_one_position_are_refused():
    with pytest.raises(BadMessage, match="differently"):
        united_labels({"a": b'{"d": {"0": ["x", ""]}}', "b": b'{"d": {"0": ["y", ""]}}'}, ASKED)
    with pytest.raises(BadMessage, match="cannot be read"):
        answer_labels(b"{", {}, AXES, YES)
