"""Tokens under every hospital's exponent: one position for one code, and nothing to try."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kit.sessions import NAMES, blind_sessions
from tripheno.errors import BadMessage, BrokenSum
from tripheno.exchange.keys import from_seed
from tripheno.exchange.session import add
from tripheno.vocabulary import secret_tokens as tokens

STUDY = hashlib.sha256(b"study").digest()
EXPONENTS = {n: tokens.exponent_of(from_seed(7, n)("tokens"), STUDY) for n in NAMES}
CODES = {
    "harbour": ("I50.9", "E11.9", "local-1"),
    "lakeside": ("E11.9", "N18.3"),
    "northfield": ("I50.9", "N18.3", "E11.9", "local-2"),
}


def exchange(codes, seed=0, sessions=None):
    """Every hospital's list with its tokens, after the ring; all that passed between hospitals."""
    sessions = sessions or blind_sessions()
    own = {n: tokens.own_list(STUDY, "diagnosis", codes[n], from_seed(seed, n)) for n in NAMES}
    at, seen = {n: own[n].points for n in NAMES}, {n: [] for n in NAMES}
    for stage, hops in enumerate(tokens.hops(NAMES)):
        for owner, sender, receiver in hops:
            label = f"tokens/{stage}/{owner}"
            box = sessions[sender].encrypt_to(receiver, label, tokens.pack(at[owner]))
            data = sessions[receiver].decrypt_from(sender, label, box)
            at[owner] = tokens.read(data, where=sender)
            seen[receiver] += at[owner]
            if receiver != owner:
                at[owner] = tokens.hide(EXPONENTS[receiver], at[owner], where=owner)
                seen[receiver] += at[owner]
    final = {n: own[n].finished(at[n], EXPONENTS[n], where=n) for n in NAMES}
    return own, final, seen


def test_hospitals_with_one_code_find_it_at_one_position():
    own, final, _ = exchange(CODES)
    union = tokens.unite([tokens.released(final[n]) for n in NAMES])
    at = {}
    for name in NAMES:
        places = tokens.ranks(union, final[name], where=name)
        assert len(places) == tokens.PAD_TO
        for code, place in zip(own[name].codes, places, strict=True):
            if code is not None:
                assert at.setdefault(code, place) == place
    assert len(set(at.values())) == len(at) == 5
    assert len(union) == tokens.POINT_BYTES * (5 + 3 * tokens.PAD_TO - 9)


def test_tokens_do_not_hang_on_the_run():
    first, again = (exchange(CODES, seed)[:2] for seed in (0, 1))
    for name in NAMES:
        one, two = (
            {c: t for c, t in zip(own[name].codes, final[name], strict=True) if c is not None}
            for own, final in (first, again)
        )
        assert one == two
        assert first[0][name].codes != again[0][name].codes


def test_no_hospital_on_the_way_holds_a_finished_token_of_another():
    _, final, seen = exchange(CODES)
    for name in NAMES:
        everyone = {token for n in NAMES for token in final[n]}
        assert not everyone & set(seen[name])


def test_a_coordinator_with_one_hospital_cannot_make_a_token():
    """Whatever it hides under the one exponent it has, no token comes out."""
    _, final, _ = exchange(CODES)
    known = [tokens.point_of(STUDY, "diagnosis", code) for code in CODES["harbour"]]
    tried = tokens.hide(EXPONENTS["lakeside"], known, where="attack")
    assert not set(tried) & {token for n in NAMES for token in final[n]}


@settings(max_examples=20, deadline=None)
@given(
    st.integers(1, tokens.ORDER - 1),
    st.integers(1, tokens.ORDER - 1),
    st.text("AEI0159.", max_size=6),
)
def test_the_order_of_hospitals_does_not_matter(one, two, code):
    point = [tokens.point_of(STUDY, "lab", code)]
    there = tokens.hide(two, tokens.hide(one, point, where=""), where="")
    assert there == tokens.hide(one, tokens.hide(two, point, where=""), where="")
    back = tokens.hide(pow(one, -1, tokens.ORDER), there, where="")
    assert back == tokens.hide(two, point, where="")


def test_modes_and_studies_have_points_of_their_own():
    asked = [(STUDY, "a", "bc"), (STUDY, "ab", "c"), (bytes(32), "a", "bc"), (STUDY, "a", "bd")]
    assert len({tokens.point_of(*one) for one in asked}) == len(asked)


@pytest.mark.parametrize("bad", [b"\xff" * 32, bytes(31), bytes(33), b""], ids=len)
def test_what_is_no_point_is_refused(bad):
    with pytest.raises(BadMessage):
        tokens.hide(EXPONENTS["harbour"], [bad], where="lakeside")


def test_half_of_all_words_are_no_points():
    on = sum(tokens._is_point(hashlib.sha256(bytes([n])).digest()) for n in range(200))
    assert 60 < on < 140


def test_lists_that_do_not_hold_are_refused():
    own, final, _ = exchange(CODES)
    union = tokens.unite([tokens.released(final[n]) for n in NAMES])
    first = final["harbour"][0]
    for bad in (union[:-1], union.replace(first, b""), union + union, union[32:64] + union):
        with pytest.raises(BadMessage):
            tokens.ranks(bad, final["harbour"], where="harbour")
    with pytest.raises(BadMessage):
        tokens.unite([tokens.pack(sorted(final["harbour"], reverse=True))])
    returned = [*own["harbour"].points[1:], own["harbour"].points[1]]
    with pytest.raises(BadMessage):
        own["harbour"].finished(returned, EXPONENTS["harbour"], where="harbour")


def test_hospitals_that_were_shown_different_unions_fit_no_other():
    for shown, agree in ((b"union", True), (b"another", False)):
        sessions = blind_sessions()
        for name, session in sessions.items():
            session.hear("tokens", shown if name == "lakeside" else b"union")
        parts = [s.seal("people", np.arange(3), b"", b"") for s in sessions.values()]
        if agree:
            assert sessions["harbour"].open(add(parts)).tolist() == [0, 3, 6]
        else:
            for session in sessions.values():
                with pytest.raises(BrokenSum):
                    session.open(add(parts))


def test_a_list_of_more_tokens_than_any_code_system_has_is_refused(monkeypatch):
    monkeypatch.setattr(tokens, "MOST_TOKENS", 3)
    point = bytes(tokens.POINT_BYTES)
    assert len(tokens.read(3 * point, where="north")) == 3
    with pytest.raises(BadMessage, match="wrong length"):
        tokens.read(4 * point, where="north")
