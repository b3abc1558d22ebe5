"""Eight words stand for a study."""

from __future__ import annotations

from tripheno.exchange.study_words import COUNT, WORDS, are_the_words, study_words


def test_two_thousand_and_forty_eight_different_words():
    assert len(set(WORDS)) == len(WORDS) == 2048
    assert {len(word) for word in WORDS} == {4}


def test_a_study_has_its_words_and_another_study_others():
    one, two = study_words(bytes(32)), study_words(bytes(31) + b"\1")
    assert len(one) == COUNT
    assert set(one) <= set(WORDS)
    assert sum(a == b for a, b in zip(one, two, strict=True)) <= 1
    assert " ".join(one) == "kiri sifa kadu mula gutu hitu dotu binu"  # on every machine


def test_words_may_be_typed_in_any_way_but_all_and_in_order():
    words = study_words(bytes(32))
    for typed in (" ".join(words), ", ".join(words).upper(), "\n".join(words) + " "):
        assert are_the_words(typed, bytes(32))
    for typed in ("", " ".join(words[:7]), " ".join(words[::-1]), "".join(words)):
        assert not are_the_words(typed, bytes(32))
