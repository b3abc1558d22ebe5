"""Every way of aligning keeps the contract of all of them."""

from __future__ import annotations

import json

import pytest

from tripheno.errors import BadMessage, BadShape, InsecureRefused
from tripheno.exchange import InProcessChannel
from tripheno.testing.aligner_contract import EXAMPLE, AlignerContract, overlapping
from tripheno.vocabulary.aligners import TokenAligner, VocabularyAligner
from tripheno.vocabulary.alignment import align_plainly, align_privately
from tripheno.vocabulary.axis import Axis
from tripheno.vocabulary.polynomial import (
    Insecure,
    PolynomialAligner,
    PolynomialHospital,
    PolynomialServer,
)
from tripheno.vocabulary.tokens import TokenDesk, _read_tokens, tokens_of


def public(hospitals):
    modes = next(iter(hospitals.values()))
    return {m: sorted({c for people in hospitals.values() for c in people[m]}) for m in modes}


class TestTokens(AlignerContract):
    def make_aligner(self, hospitals):
        return TokenAligner(0)


class TestPublicList(AlignerContract):
    def make_aligner(self, hospitals):
        return VocabularyAligner(public(hospitals), 0)


@pytest.mark.filterwarnings("ignore::tripheno.vocabulary.polynomial.Insecure")
class TestPolynomial(AlignerContract):
    def make_aligner(self, hospitals):
        return PolynomialAligner(0, insecure=True)


def test_polynomials_are_refused_unless_their_insecurity_is_accepted():
    with pytest.raises(InsecureRefused, match="shows every hospital's code list"):
        PolynomialAligner(0)
    with pytest.warns(Insecure, match="insecure"):
        PolynomialAligner(0, insecure=True).align(EXAMPLE)


def test_a_server_that_knows_the_codes_reads_every_list_from_the_polynomials():
    """Why it is called insecure."""
    known = tuple(f"{n:03d}" for n in range(400))
    secret = tuple(known[n] for n in range(0, 400, 3))
    sent = PolynomialHospital(secret, 1 << 60).polynomial()
    curious = PolynomialHospital(known, 1 << 59)
    zeros = curious.zeros_of(sent)
    assert tuple(code for code, zero in zip(known, zeros, strict=True) if zero) == secret


@pytest.mark.parametrize("data", [b"1", b"\xff" * 8])
def test_malformed_polynomials_are_refused(data):
    with pytest.raises(BadMessage):
        PolynomialServer([data])


def test_cells_whose_sizes_differ_between_hospitals_are_refused():
    server = PolynomialServer([])
    for reported in ([{3: 2}, {3: 1}], [{3: 2}, {}], [{2: 1}, {2: 1}]):
        with pytest.raises(BadMessage):
            server.sizes(reported)


@pytest.fixture
def heard(monkeypatch):
    """Every byte that went either way."""
    up, down = [], []
    round_trip = InProcessChannel.round

    def listening(channel, step, broadcast):
        down.append(broadcast)
        answers = round_trip(channel, step, broadcast)
        up.extend(answers.values())
        return answers

    monkeypatch.setattr(InProcessChannel, "round", listening)
    return up, down


@pytest.mark.parametrize("kind", ["tokens", "vocabulary"])
def test_no_code_can_be_found_in_what_passes_the_server(kind, heard):
    made = overlapping(3, 300)
    made = {n: {"d": {f"code-{c}": k for c, k in p["diagnosis"].items()}} for n, p in made.items()}
    aligner = TokenAligner(0) if kind == "tokens" else VocabularyAligner(public(made), 0)
    aligner.align(made)
    everything = b"".join(heard[0] + heard[1])
    assert b"code-" not in everything
    for code in public(made)["d"]:
        for form in (code, code.encode().hex()):
            assert form.encode() not in everything


def test_positions_are_told_to_their_own_hospital_only(heard):
    TokenAligner(0).align(EXAMPLE)
    everything = b"".join(heard[1])
    assert b"positions" not in everything
    assert b"positions".hex().encode() not in everything


def test_tokens_of_two_federations_have_nothing_in_common():
    first, second = (set(tokens_of(key * 32, "d", ["a", "b"])) for key in (b"1", b"2"))
    assert not first & second
    assert not set(tokens_of(b"1" * 32, "m", ["a", "b"])) & first


@pytest.mark.parametrize(
    "data",
    [b"", b"[]", b"{", b'{"d": 3}', b'{"d": "zz"}', b'{"d": "00"}', b"[" * 4000,
     json.dumps({"d": "11" * 32}).encode(), json.dumps({"d": "22" * 16 + "11" * 16}).encode()],
)  # fmt: skip
def test_token_lists_that_are_malformed_are_refused_by_name(data):
    with pytest.raises(BadMessage, match="harbour"):
        _read_tokens(data, "harbour")


@pytest.mark.parametrize("kind", ["tokens", "vocabulary"])
def test_lists_as_long_as_a_whole_classification_are_aligned(kind):
    codes = 80_000
    everyone = overlapping(3, codes)
    aligner = TokenAligner(0) if kind == "tokens" else VocabularyAligner(public(everyone), 0)
    places = aligner.align(everyone)
    assert {found.sizes["diagnosis"] for found in places.values()} == {codes}


def test_codes_under_the_threshold_are_on_no_axis():
    aligner = VocabularyAligner(public(EXAMPLE), 0, threshold=8)
    places = aligner.align(EXAMPLE)
    assert places["one"].sizes == {"diagnosis": 1, "medication": 1}
    assert list(places["one"].positions["diagnosis"]) == [-1, -1, 0]
    assert list(places["two"].positions["medication"]) == [0, -1]


def test_a_code_that_is_not_on_the_public_list_is_refused_without_its_name():
    with pytest.raises(BadShape, match=r"1 of this hospital's codes") as caught:
        VocabularyAligner({"diagnosis": ["x"]}, 0).align({"one": {"diagnosis": {"secret": 3}}})
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("kind", ["tokens", "vocabulary"])
def test_private_alignment_gives_the_axes_of_the_plain_union(kind):
    axes = {
        name: [Axis(mode, len(codes), tuple(codes)) for mode, codes in people.items()]
        for name, people in EXAMPLE.items()
    }
    aligner = TokenAligner(0) if kind == "tokens" else VocabularyAligner(public(EXAMPLE), 0)
    assert align_privately(axes, EXAMPLE, aligner) == align_plainly(list(axes.values()))


def test_modes_without_codes_need_no_alignment():
    axes = {name: [Axis("a", 3), Axis("b", 2)] for name in ("one", "two")}
    found = align_privately(axes, {"one": {}, "two": {}}, TokenAligner(0))
    assert found == (Axis("a", 3), Axis("b", 2))


def test_tokens_are_not_given_before_there_is_a_key():
    keys, _, _ = TokenAligner(0)._desks(["one", "two", "three"])
    with pytest.raises(BadMessage, match="before there is a key"):
        TokenDesk({"d": ("a",)}, keys["one"]).answer("tokens/list", b"")
    with pytest.raises(BadMessage, match="before keys were agreed"):
        keys["one"].answer("share/give", b"")
