"""One small run, byte for byte: what another program would have to say to take part.

Secrets: SHA-256 of "0|<name>|<purpose>", see `tripheno.exchange.keys.from_seed`.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from kit.sessions import NAMES, SNAPSHOT, THRESHOLDS, blind_session, roster_of
from tripheno.exchange.session import add

VECTORS = Path(__file__).parents[1] / "vectors" / "sums.json"
NUMBERS = {
    "harbour": [1, -2, (1 << 58) - 1],
    "lakeside": [10, -20, 0],
    "northfield": [100, -200, 1 - (1 << 58)],
}


def replay():
    roster = roster_of()
    sessions = {name: blind_session(name, roster) for name in NAMES}
    said = {n: s.announce(SNAPSHOT, THRESHOLDS, ()) for n, s in sessions.items()}
    shares = {n: s.meet(said) for n, s in sessions.items()}
    for session in sessions.values():
        session.take_shares(shares)
    first = {n: s.confirm() for n, s in sessions.items()}
    confirmed = add(list(first.values()))
    for session in sessions.values():
        session.check_confirm(confirmed)
    parts = {
        n: s.seal("fit/0/1", np.array(NUMBERS[n]), b"layout", b"scales")
        for n, s in sessions.items()
    }
    total = add(list(parts.values()))
    opened = {n: s.open(total).tolist() for n, s in sessions.items()}
    groups = {"announce": said, "shares": shares, "confirm": first, "parts": parts}
    groups["end"] = {n: s.end() for n, s in sessions.items()}
    found = {kind: {n: data.hex() for n, data in group.items()} for kind, group in groups.items()}
    single = {"study": roster.study, "total": total, "h": sessions["harbour"].h}
    return found | {name: data.hex() for name, data in single.items()} | {"opened": opened}


def test_every_byte_is_the_vectors():
    expected = json.loads(VECTORS.read_text())
    found = replay()
    assert list(found) == list(expected)
    for name, value in expected.items():
        assert found[name] == value, name


def test_the_vectors_total_is_the_sum():
    exact = np.sum(list(NUMBERS.values()), axis=0).tolist()
    assert replay()["opened"] == dict.fromkeys(NAMES, exact)
