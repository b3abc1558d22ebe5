"""Codes that too few people have never enter, and hidden counts cannot be worked out."""

from __future__ import annotations

import itertools
from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kit.planted import planted
from tripheno.errors import NothingLeft, SettingsError
from tripheno.exchange.communicator import in_clear
from tripheno.privacy.prevalence import shown_counts
from tripheno.privacy.subgroups import shown_groups
from tripheno.study.axes import without_small_cells
from tripheno.study.makers import Maker
from tripheno.tensor.count_tensor import CountTensor, pooled
from tripheno.vocabulary.axis import Axis


def test_people_are_counted_and_not_rows():
    axes = [Axis("m", 2, ("a", "b")), Axis("d", 2, ("x", "y"))]
    cells = [[0, 0, 0], [0, 0, 1], [1, 0, 0], [1, 1, 1]]
    tensor = CountTensor.from_cells(cells, [9, 9, 1, 1], axes=axes)
    assert [people.tolist() for people in tensor.people_at_positions()] == [[2, 1], [2, 2]]


@pytest.mark.parametrize("kind", ["plain", "blind"])
@pytest.mark.parametrize("fewest", [1, 11, 25])
def test_every_code_left_has_enough_people_in_the_network(fewest, kind):
    own = planted(0).hospitals
    tensors, removed = without_small_cells(Maker(kind)(tuple(own)), own, fewest)
    together = pooled(list(tensors.values()))
    assert min(people.min() for people in together.people_at_positions()) >= fewest
    before = planted(0).together
    for old, new in zip(before.axes, together.axes, strict=True):
        assert set(new.codes) <= set(old.codes)
        assert removed[new.mode] == old.size - new.size
    if fewest == 25:
        assert sum(removed.values()) > 0
        for people in zip(*(t.people_at_positions() for t in tensors.values()), strict=True):
            for one in people:  # what a hospital sees of the others
                others = sum(people) - one
                assert ((others == 0) | (others >= fewest)).all()


def people_with_the_first_codes(people):
    axes = [Axis("m", 2), Axis("d", 2)]
    cells = [[p, 0, 0] for p in range(people)]
    return CountTensor.from_cells(cells, np.ones(people), axes=axes, shape=(people, 2, 2))


def test_a_code_that_is_rare_everywhere_and_common_together_stays():
    own = dict.fromkeys("abc", people_with_the_first_codes(6))
    left, removed = without_small_cells(Maker("blind")("abc"), own, 11)
    assert removed == {"m": 1, "d": 1}
    assert left["a"].nonzeros == 6


def test_a_code_goes_where_a_hospital_would_see_a_few_people_of_the_others():
    own = dict.fromkeys("abc", people_with_the_first_codes(4))  # 12 in all, 8 of them others
    with pytest.raises(NothingLeft):
        without_small_cells(Maker("blind")("abc"), own, 11)


def test_nothing_left_is_a_refusal_that_names_the_mode():
    own = planted(0).hospitals
    with pytest.raises(NothingLeft, match="medication"):
        without_small_cells(in_clear(own), own, 5_000)
    with pytest.raises(SettingsError):
        without_small_cells(in_clear(own), own, 0)


counts = st.lists(st.integers(0, 40), min_size=1, max_size=6)


@given(counts, st.integers(2, 12))
def test_no_small_count_is_shown(found, fewest):
    shown = shown_counts(found, fewest)
    for count, part in zip(found, shown.parts, strict=True):
        assert part is None or part == count
        assert part is None or part == 0 or part >= fewest
    if all(count == 0 or count >= fewest for count in found):
        assert shown == (tuple(found), sum(found))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 14), min_size=1, max_size=4), st.integers(2, 6))
def test_no_hidden_count_follows_from_what_is_shown(found, fewest):
    """By trying everything: each hidden count may be at least ``fewest`` different numbers."""
    shown = shown_counts(found, fewest)
    hidden = [n for n, part in enumerate(shown.parts) if part is None]
    if not hidden or shown.total is None:
        return
    rest = shown.total - sum(part for part in shown.parts if part is not None)
    possible = [
        guess
        for guess in itertools.product(range(1, rest + 1), repeat=len(hidden))
        if sum(guess) == rest
    ]
    for place in range(len(hidden)):
        assert len({guess[place] for guess in possible}) >= fewest


def test_a_single_hidden_count_takes_another_with_it():
    assert shown_counts([3, 20, 50], 11) == ((None, None, 50), 73)
    assert shown_counts([3], 11) == ((None,), None)
    assert shown_counts([0, 12], 11) == ((0, 12), 12)


def test_who_knows_the_rule_works_a_hidden_number_of_a_group_out_in_few_tables():
    """By trying every table: which ones would be shown alike, and what do they have in common?

    A group that is hidden with another says something too. The page names the share.
    """
    fewest, most, groups = 4, 6, range(3)
    cells = [(size, have) for size in range(most + 1) for have in range(size + 1)]
    alike = defaultdict(list)
    for table in itertools.product(cells, repeat=len(groups)):
        sizes, having = zip(*table, strict=True)
        total, everybody = sum(having), sum(sizes)
        few = total < fewest or 0 < everybody - total < fewest
        shown = shown_groups({"age": "abc"}, sizes, [[have] for have in having], fewest)
        alike[everybody, None if few else total, shown].append(table)

    worked_out = 0
    for tables in alike.values():
        arrays = np.array(tables)  # table × group × (size, have)
        numbers = np.concatenate([arrays, arrays[..., :1] - arrays[..., 1:]], axis=2)
        same = (numbers == numbers[0]).all(axis=0) & (numbers[0] > 0) & (numbers[0] < fewest)
        worked_out += len(tables) * bool(same.any())
    assert worked_out / len(cells) ** len(groups) == pytest.approx(0.027, abs=5e-4)
