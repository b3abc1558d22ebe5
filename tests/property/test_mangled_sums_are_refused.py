"""Whatever arrives, sessions and the coordinator answer or refuse: no crash, no leak."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kit.sessions import (
    NAMES,
    SNAPSHOT,
    THRESHOLDS,
    blind_session,
    blind_sessions,
    identity_of,
    plain_sessions,
    roster_of,
)
from tripheno.errors import TriphenoError
from tripheno.exchange.communicator import bundle, combine, unbundled, united
from tripheno.exchange.messages import unpack
from tripheno.exchange.session import add
from tripheno.federation.audit_file import countersigned
from tripheno.federation.relay import opened_answer
from tripheno.federation.wire import Asked, Hello
from tripheno.privacy.faults import fault_of
from tripheno.privacy.labels import united_labels
from tripheno.solver.settings import SolverSettings
from tripheno.study.result import read_result

FEW, MANY = 300, 20_000
SECRET = 987_654_321
ROSTER = roster_of()
SESSIONS, PLAIN = blind_sessions(), plain_sessions()
PARTS = {n: s.seal("fit/0", np.full(5, SECRET), b"", b"scales") for n, s in SESSIONS.items()}
CLEAR = [s.seal("fit/0", np.full(5, SECRET), b"", b"scales") for s in PLAIN.values()]
TOTAL = add(list(PARTS.values()))
EARLY = {name: blind_session(name, ROSTER) for name in NAMES}
SAID = {n: s.announce(SNAPSHOT, THRESHOLDS, ()) for n, s in EARLY.items()}
SHARES = {n: s.meet(SAID) for n, s in EARLY.items()}
SIGNED = SESSIONS["harbour"].end()
HELLO = Hello("run-1", 1, "0" * 64).pack()
LABELS = b'{"diagnosis": {"0": ["I10", "hypertension"]}}'
ASKED = Asked("sum", "fit/0", TOTAL).pack()
REAL = [
    HELLO,
    LABELS,
    ASKED,
    b"\x01TRIP-E505",
    bundle(SAID),
    TOTAL,
    SIGNED,
    CLEAR[0],
    *PARTS.values(),
    *SAID.values(),
    *SHARES.values(),
]


@st.composite
def mangled(draw):
    """A real message cut, stretched, changed, doubled or replaced."""
    data = bytearray(draw(st.sampled_from(REAL)))
    for _ in range(draw(st.integers(0, 4))):
        data[draw(st.integers(0, len(data) - 1))] = draw(st.integers(0, 255))
    kept = bytes(data[: draw(st.integers(0, len(data)))] if draw(st.booleans()) else data)
    return draw(st.sampled_from([kept, kept + kept, kept + b"\0", draw(st.binary(max_size=300))]))


def twin(session):
    """A session of the same state, to be spoilt."""
    other = copy.copy(session)
    other._outbox = dict(session._outbox)
    other._boxes, other.announced = dict(session._boxes), dict(session.announced)
    return other


def confirming(name, shares):
    """A session that took these shares, and waits for the first total."""
    session = twin(EARLY[name])
    session.take_shares(shares)
    session.confirm()
    return session


CONFIRMED = add([confirming(name, SHARES).again(0) for name in NAMES])


def gatekeepers(data):
    """Every place where a message from outside comes in, with the one that belongs there."""
    early = blind_session("harbour", ROSTER)
    early.announce(SNAPSHOT, THRESHOLDS, ())
    rest = list(PARTS.values())[1:]
    return {
        "open": (lambda: twin(SESSIONS["harbour"]).open(data), TOTAL),
        "meet": (lambda: early.meet({**SAID, "lakeside": data}), SAID["lakeside"]),
        "shares": (
            lambda: confirming("harbour", {**SHARES, "lakeside": data}).check_confirm(CONFIRMED),
            SHARES["lakeside"],
        ),
        "add": (lambda: add([PARTS["harbour"], *rest[:-1], data]), rest[-1]),
        "first": (lambda: add([data, *rest]), PARTS["harbour"]),
        "clear": (lambda: add([data, *CLEAR[1:]]), CLEAR[0]),
        "end": (lambda: twin(SESSIONS["harbour"]).check_end(dict.fromkeys(NAMES, data)), None),
        "box": (lambda: SESSIONS["harbour"].decrypt_from("lakeside", "x", data), None),
    }


def reading(data):
    """Whatever else a hospital or the coordinator reads of a message."""
    keeper = identity_of("harbour")
    yield lambda: unbundled(data, NAMES, "announce")
    yield lambda: united([data])
    yield lambda: combine("sum", {"harbour": data, "lakeside": data})
    yield lambda: Asked.unpack(data, "harbour")
    yield lambda: Hello.unpack(data)
    yield lambda: read_result(data, SolverSettings(), "harbour")
    yield lambda: united_labels({"harbour": data}, {"diagnosis": [0]})
    yield lambda: countersigned("harbour", data, keeper.public, keeper)
    yield lambda: fault_of(data, "harbour")
    yield lambda: unpack(data, where="harbour")
    yield lambda: opened_answer("harbour", data)
    yield lambda: SESSIONS["harbour"].verified("lakeside", "labels", data)


MASKED = ("add", "first", "clear")  # a coordinator cannot tell one masked number from another


def check(data):
    for gatekeeper, (enter, right) in gatekeepers(data).items():
        try:
            enter()
        except TriphenoError as error:
            text = str(error)
            assert data != right
            assert str(SECRET) not in text
            assert "scales" not in text
            assert len(text) < 400
        else:
            assert data == right or gatekeeper in MASKED


def check_reading(data):
    for read in reading(data):
        try:
            read()
        except TriphenoError as error:
            told = str(error)
        else:
            continue
        assert str(SECRET) not in told
        assert len(told) < 500


@settings(max_examples=FEW, deadline=None)
@given(mangled() | st.binary(max_size=400))
def test_mangled_messages_crash_no_reader(data):
    check_reading(data)


@pytest.mark.verify
@settings(max_examples=MANY, deadline=None)
@given(mangled() | st.binary(max_size=400))
def test_thousands_of_mangled_messages_crash_no_reader(data):
    check_reading(data)


def test_the_right_messages_are_taken():
    for data in (TOTAL, SAID["lakeside"], SHARES["lakeside"], *PARTS.values(), CLEAR[0]):
        check(data)


@settings(max_examples=FEW, deadline=None)
@given(mangled())
def test_mangled_messages_are_refused(data):
    check(data)


@pytest.mark.verify
@settings(max_examples=MANY, deadline=None)
@given(mangled())
def test_thousands_of_mangled_messages_are_refused(data):
    check(data)
