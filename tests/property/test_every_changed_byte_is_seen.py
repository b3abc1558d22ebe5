"""A small study of blind sums with one byte changed on its way, in either direction."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tripheno.errors import TriphenoError
from tripheno.exchange.session import add
from tripheno.testing.sessions import NAMES, SNAPSHOT, THRESHOLDS, blind_session, roster_of

ROSTER = roster_of()
FEW, MANY = 500, 6_000
STEPS = ("count", "fit/0/1")


class Wire:
    """Carries every message; changes one byte of one of them."""

    def __init__(self, message=-1, place=0, flip=1):
        self.message, self.place, self.flip, self.sizes = message, place, flip, []

    def __call__(self, data):
        self.sizes.append(len(data))
        if len(self.sizes) - 1 != self.message:
            return data
        changed = bytearray(data)
        changed[int(self.place * len(data))] ^= self.flip
        return bytes(changed)


def study(wire):
    """Totals of every hospital, if all of them come to the end."""
    sessions = {name: blind_session(name, ROSTER) for name in NAMES}

    def to_all(said):
        return {name: {n: wire(data) for n, data in said.items()} for name in NAMES}

    said = {n: wire(s.announce(SNAPSHOT, THRESHOLDS, ())) for n, s in sessions.items()}
    told = to_all(said)
    shares = {n: wire(s.meet(told[n])) for n, s in sessions.items()}
    told = to_all(shares)
    for name, session in sessions.items():
        session.take_shares(told[name])
    total = add([wire(session.confirm()) for session in sessions.values()])
    for session in sessions.values():
        session.check_confirm(wire(total))
    found = []
    for step in STEPS:
        parts = [wire(s.seal(step, np.arange(4), b"", b"")) for s in sessions.values()]
        total = add(parts)
        found += [session.open(wire(total)).tolist() for session in sessions.values()]
    told = to_all({name: wire(session.end()) for name, session in sessions.items()})
    for name, session in sessions.items():
        session.check_end(told[name])
    return found


QUIET = Wire()
EXPECTED = study(QUIET)
changes = st.tuples(
    st.integers(0, len(QUIET.sizes) - 1),
    st.floats(0, 1, exclude_max=True),
    st.integers(1, 255),
)


def test_without_a_change_every_hospital_has_every_total():
    assert [[0, 3, 6, 9]] * (len(NAMES) * len(STEPS)) == EXPECTED


@settings(max_examples=FEW, deadline=None)
@given(changes)
def test_a_changed_byte_is_seen(change):
    with pytest.raises(TriphenoError):
        study(Wire(*change))


@pytest.mark.verify
@settings(max_examples=MANY, deadline=None)
@given(changes)
def test_a_changed_byte_is_seen_in_thousands_of_studies(change):
    with pytest.raises(TriphenoError):
        study(Wire(*change))
