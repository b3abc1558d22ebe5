"""Codes stay where enough people are behind them, and behind what each hospital sees."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kit.sessions import NAMES, blind_sessions, summed
from tripheno.errors import BadShape
from tripheno.exchange.keys import from_seed
from tripheno.exchange.words import noise_from
from tripheno.privacy.vetoes import counted, kept, vetoes

NOISE = noise_from(from_seed(0, "noise"), "veto")
FEWEST = 11


def decide(people, fewest=FEWEST):
    """What every hospital makes of the two sums."""
    own = [counted(np.array(one), fewest) for one in people]
    total = np.sum(own, axis=0)
    objections = np.sum([vetoes(total, one, fewest, NOISE) for one in own], axis=0)
    return kept(total, objections, fewest)


@settings(max_examples=200, deadline=None)
@given(
    st.integers(1, 12),
    st.lists(st.lists(st.integers(0, 30), min_size=3, max_size=3), min_size=1, max_size=20),
)
def test_the_rule_holds_for_true_counts_though_capped_ones_are_summed(fewest, rows):
    people = np.array(rows).T
    total = people.sum(axis=0)
    others = total - people
    expected = (total >= fewest) & ((others == 0) | (others >= fewest)).all(axis=0)
    assert np.array_equal(decide(people, fewest), expected)


def test_where_one_person_is_enough_one_is():
    assert decide([(1, 0), (0, 0), (0, 0)], fewest=1).tolist() == [True, False]


def test_by_example():
    codes = {
        "nobody": (0, 0, 0),
        "one hospital alone": (40, 0, 0),
        "ten in the network": (4, 3, 3),
        "eleven in the network, each sees fewer": (4, 4, 3),
        "one other patient": (40, 1, 0),
        "two with enough": (40, 20, 0),
        "a few at one, many at the others": (5, 40, 40),
        "enough everywhere": (11, 11, 11),
    }
    stays = decide(np.array(list(codes.values())).T)
    assert dict(zip(codes, stays.tolist(), strict=True)) == {
        "nobody": False,
        "one hospital alone": True,
        "ten in the network": False,
        "eleven in the network, each sees fewer": False,
        "one other patient": False,
        "two with enough": True,
        "a few at one, many at the others": True,
        "enough everywhere": True,
    }


def test_over_blind_sums_every_hospital_decides_alike():
    people = dict(zip(NAMES, np.array([[40, 5, 1], [1, 40, 40], [0, 40, 40]]), strict=True))
    sessions = blind_sessions()
    own = {name: counted(one, FEWEST) for name, one in people.items()}
    totals = summed(sessions, "people", own.get)
    objections = summed(
        sessions, "veto", lambda name: vetoes(totals[name], own[name], FEWEST, NOISE)
    )
    for name in NAMES:
        assert kept(totals[name], objections[name], FEWEST).tolist() == [False, True, True]


def test_a_total_below_ones_own_is_refused():
    with pytest.raises(BadShape):
        vetoes(np.array([3]), np.array([4]), FEWEST, NOISE)
