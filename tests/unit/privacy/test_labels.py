"""Names of the final phenotypes' codes: only those shown, only where it was approved."""

from __future__ import annotations

import numpy as np
import pytest

from tripheno.errors import BadMessage
from tripheno.exchange.communicator import in_clear
from tripheno.privacy.labels import share_labels, shown_positions, united_labels
from tripheno.vocabulary.axis import Axis

SHOWN = {"d": [0, 2, 5]}
AXES = {
    "a": [Axis("d", 6, ("I10", None, None, "E11", None, None), {"I10": "Hypertension"})],
    "b": [Axis("d", 6, (None, None, "E12", None, None, None))],
}


def test_a_hospital_names_its_own_codes_among_those_shown():
    heard = {}
    federation = in_clear(AXES, lambda step, name, answer, part: heard.update({name: part}))
    named = share_labels(federation, AXES, SHOWN, {"a": True, "b": True})
    assert named == {"d": {0: ("I10", "Hypertension"), 2: ("E12", "")}}
    assert b"E11" not in heard["a"]


def test_without_approval_no_name_leaves():
    heard = {}
    federation = in_clear(AXES, lambda step, name, answer, part: heard.update({name: part}))
    named = share_labels(federation, AXES, SHOWN, {"a": False, "b": True})
    assert heard["a"] == b""
    assert named == {"d": {2: ("E12", "")}}


def test_the_positions_are_those_of_the_leading_codes_of_phenotypes_without_the_bias():
    factor = np.zeros((6, 2))
    factor[2, 0] = factor[4, 1] = 1.0
    assert shown_positions(AXES["a"], [factor], 1) == {"d": [2]}


@pytest.mark.parametrize(
    "answer", [b"", b"[]", b'{"d": {"1": ["x", ""]}}', b'{"m": {"0": ["x", ""]}}', b'{"d": 3}',
               b'{"d": {"0": ["' + b"x" * 500 + b'", ""]}}'],
    ids=["nothing", "list", "position", "mode", "number", "long"],
)  # fmt: skip
def test_names_that_no_phenotype_shows_are_refused(answer):
    with pytest.raises(BadMessage):
        united_labels({"a": answer}, SHOWN)


def test_two_names_for_one_position_are_refused():
    with pytest.raises(BadMessage, match="differently"):
        united_labels({"a": b'{"d": {"0": ["x", ""]}}', "b": b'{"d": {"0": ["y", ""]}}'}, SHOWN)
