"""Whatever arrives, a hospital and the server answer or refuse: no crash, no hang."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tripheno.errors import TriphenoError
from tripheno.exchange import Broadcast, InProcessChannel
from tripheno.exchange.simulated import SecureSums
from tripheno.exchange.sums import Hospital, handler
from tripheno.solver.messages import Totals

NAMES = ("one", "two", "three")
STEP = "ask/1"
FEW, MANY = 300, 10_000


def halves():
    made, server = SecureSums(0)(NAMES)
    server.agree(InProcessChannel({name: half.answer_keys for name, half in made.items()}))
    return made, server


PARTS, SERVER = halves()
LIKE = {"x": np.zeros(3)}
SEALED = {name: half.seal(name, STEP, {"x": np.ones(3)}) for name, half in PARTS.items()}
WHOLE = SEALED["two"]


@st.composite
def mangled(draw):
    """A real message cut, stretched, changed, doubled or replaced."""
    data = bytearray(draw(st.sampled_from([*SEALED.values(), b""])))
    for _ in range(draw(st.integers(0, 3))):
        if data:
            data[draw(st.integers(0, len(data) - 1))] = draw(st.integers(0, 255))
    data = bytes(data[: draw(st.integers(0, len(data)))] if draw(st.booleans()) else data)
    return draw(st.sampled_from([data, data + data, data + b"\0", draw(st.binary(max_size=600))]))


def check_the_server(data):
    try:
        total = SERVER.total(STEP, {**SEALED, "two": data}, LIKE)
    except TriphenoError:
        assert data != WHOLE
    else:
        assert data == WHOLE
        assert np.array_equal(total["x"], np.full(3, 3.0))


@settings(max_examples=FEW, deadline=None)
@given(mangled())
def test_the_server_takes_the_one_right_message_and_refuses_all_others(data):
    check_the_server(data)


@pytest.mark.verify
@settings(max_examples=MANY, deadline=None, suppress_health_check=list(HealthCheck))
@given(mangled())
def test_ten_thousand_messages_neither_crash_nor_hang_the_server(data):
    check_the_server(data)


class Nothing(Broadcast):
    pass


STEPS = st.one_of(
    st.sampled_from(["ask/1", "ask/2", "ask/1/retry1", "ask/1/retry9", "keys/confirm", "keys/x"]),
    st.text(max_size=30),
)
DATA = st.one_of(
    st.binary(max_size=300),
    st.binary(max_size=80).map(lambda data: len(data).to_bytes(8, "little") + data),
    st.just(bytes(8) + Nothing().pack()),
    mangled(),
)


def check_a_hospital(messages):
    made, _ = halves()
    desk = Hospital(
        "two",
        made["two"],
        {"ask": handler(Nothing, lambda _: Totals(1.0, 2.0, 3.0))},
    )
    answers = {}
    for step, data in messages:
        try:
            answer = desk.respond(step, data)
        except TriphenoError:
            continue
        assert answers.setdefault(step, answer) == answer


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(STEPS, DATA), max_size=12))
def test_a_hospital_answers_a_step_once_or_refuses(messages):
    check_a_hospital(messages)


@pytest.mark.verify
@settings(max_examples=1_000, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.tuples(STEPS, DATA), min_size=10, max_size=14))
def test_ten_thousand_messages_neither_crash_nor_hang_a_hospital(messages):
    check_a_hospital(messages)
