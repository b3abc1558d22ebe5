"""What leaves in clear is signed for one message of one attempt."""

from __future__ import annotations

import secrets

import pytest

from tripheno.errors import BadSignature
from tripheno.exchange.keys import Identity
from tripheno.exchange.signed import occasion_of, signed, verified

STUDY = bytes(32)


def test_what_was_signed_is_read_without_its_signature():
    one, occasion = Identity.from_bytes(secrets.token_bytes(32)), occasion_of(STUDY, "run", 1)
    sent = signed(one, occasion, "result", b"phenotypes")
    assert verified(sent, one.public, occasion, "result", "h1") == b"phenotypes"


@pytest.mark.parametrize(
    ("occasion", "label", "mend"),
    [
        (occasion_of(STUDY, "run", 2), "result", bytes),
        (occasion_of(STUDY, "other", 1), "result", bytes),
        (occasion_of(bytes(31) + b"1", "run", 1), "result", bytes),
        (occasion_of(STUDY, "run", 1), "labels", bytes),
        (occasion_of(STUDY, "run", 1), "result", lambda sent: b"P" + sent[1:]),
        (occasion_of(STUDY, "run", 1), "result", lambda sent: sent[:40]),
    ],
    ids=["another attempt", "another run", "another study", "another message", "changed", "cut"],
)
def test_it_is_good_for_nothing_else(occasion, label, mend):
    one = Identity.from_bytes(secrets.token_bytes(32))
    sent = signed(one, occasion_of(STUDY, "run", 1), "result", b"phenotypes")
    with pytest.raises(BadSignature):
        verified(mend(sent), one.public, occasion, label, "h1")


def test_nobody_signs_for_another():
    one, other = (Identity.from_bytes(secrets.token_bytes(32)) for _ in range(2))
    occasion = occasion_of(STUDY, "run", 1)
    with pytest.raises(BadSignature):
        verified(signed(other, occasion, "result", b"x"), one.public, occasion, "result", "h1")
