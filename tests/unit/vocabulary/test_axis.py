"""Which position means which code, and how several hospitals agree on it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tripheno.errors import BadShape
from tripheno.records.events import check_events
from tripheno.vocabulary.alignment import align_plainly
from tripheno.vocabulary.axis import Axis, axis_of_events, union

code_lists = st.lists(st.text("abcdé1.", min_size=1, max_size=4), unique=True, max_size=8)


def axis(*codes, mode="med", **labels):
    return Axis(mode, len(codes), codes, labels)


def test_a_position_is_named_by_label_then_code_then_number():
    labelled = axis("a", "b", a="Aspirin")
    assert labelled.names() == ["Aspirin", "b"]
    assert Axis("med", 2).names() == ["med 0", "med 1"]


def test_as_many_codes_as_positions():
    with pytest.raises(BadShape, match="1 codes for 2 positions · med"):
        Axis("med", 2, ("a",))


def test_a_code_stands_at_one_position_only():
    with pytest.raises(BadShape, match="a code stands at two positions"):
        axis("a", "b", "a")


def test_labels_do_not_make_another_axis():
    assert axis("a", a="Aspirin") == axis("a", a="ASA")
    assert hash(axis("a", a="Aspirin")) == hash(axis("a"))
    assert axis("a") != axis("b")
    assert axis("a") != axis("a", mode="dx")
    assert axis("a") != Axis("med", 1)


@given(codes=code_lists, asked=code_lists)
@settings(max_examples=80, deadline=None)
def test_positions_lead_back_to_the_codes(codes, asked):
    positions = axis(*codes).positions(asked)
    assert positions.dtype == np.int64
    assert [codes[p] if p >= 0 else None for p in positions] == [
        code if code in codes else None for code in asked
    ]


def test_an_axis_without_codes_cannot_look_one_up():
    with pytest.raises(BadShape, match="no codes to look up · med"):
        Axis("med", 3).positions(["a"])


def table(**changes):
    columns = {
        "patient": [0, 0, 1, 1, 2],
        "window": [0, 0, 0, 0, 0],
        "mode": ["med", "dx", "med", "med", "dx"],
        "code": ["zinc", "x", "aspirin", "zinc", "zinc"],
        "label": [None, "Ex", "Aspirin", "Zinc", "Zinc deficiency"],
    }
    return check_events({**columns, **changes})


def test_the_axis_of_events_holds_each_code_of_the_mode_once_sorted():
    found = axis_of_events(table(), "med")
    assert found.codes == ("aspirin", "zinc")
    assert found.size == 2
    assert found.mode == "med"


def test_labels_come_from_the_mode_and_from_the_row_that_has_one():
    assert axis_of_events(table(), "med").labels == {"aspirin": "Aspirin", "zinc": "Zinc"}
    assert axis_of_events(table(), "dx").labels == {"x": "Ex", "zinc": "Zinc deficiency"}


def test_events_without_labels_give_an_axis_without_them():
    found = axis_of_events(table(label=[None] * 5), "med")
    assert found.labels == {}
    assert found.names() == ["aspirin", "zinc"]


def test_the_axis_of_an_absent_mode_is_empty():
    assert axis_of_events(table(), "lab") == Axis("lab", 0, ())


# ── several hospitals ─────────────────────────────────────────────────────────────────────────


@given(lists=st.lists(code_lists, min_size=1, max_size=4))
@settings(max_examples=80, deadline=None)
def test_the_union_holds_every_code_once_whatever_the_order_of_hospitals(lists):
    axes = [axis(*codes) for codes in lists]
    whole = union(axes)
    assert list(whole.codes) == sorted({code for codes in lists for code in codes})
    assert union(axes[::-1]) == whole
    assert union([whole, *axes]) == whole


def test_the_union_keeps_labels_of_every_hospital():
    whole = union([axis("a", "b", a="Aspirin"), axis("b", "c", b="Biotin")])
    assert whole.names() == ["Aspirin", "Biotin", "c"]


def test_different_modes_are_not_united():
    with pytest.raises(BadShape, match=r"different modes: \['dx', 'med'\]"):
        union([axis("a"), axis("a", mode="dx")])


def test_axes_without_codes_are_united_when_they_have_one_size():
    assert union([Axis("med", 3), Axis("med", 3)]) == Axis("med", 3)


@pytest.mark.parametrize("other", [Axis("med", 4), Axis("med", 3, ("a", "b", "c"))])
def test_axes_without_codes_are_not_united_with_others(other):
    with pytest.raises(BadShape, match="name the codes"):
        union([Axis("med", 3), other])


def test_hospitals_are_aligned_mode_by_mode():
    first = (axis("a", "b"), axis("x", mode="dx"))
    second = (axis("c"), axis("y", "x", mode="dx"))
    med, dx = align_plainly([first, second])
    assert med.codes == ("a", "b", "c")
    assert dx.codes == ("x", "y")


def test_hospitals_with_other_modes_or_another_order_are_refused():
    med, dx = axis("a"), axis("x", mode="dx")
    for other in ((dx, med), (med,)):
        with pytest.raises(BadShape, match="hospitals have different modes"):
            align_plainly([(med, dx), other])
