"""Unit columns, readable signs, matching, Gram matrices."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import khatri_rao

from kit.strategies import factors
from tripheno.errors import BadShape
from tripheno.tensor.factors import (
    factor_match_score,
    gram_of_others,
    match_components,
    readable_signs,
    similarity_matrix,
    unit_columns,
)
from tripheno.tensor.rows import RIDGE, regular, solve_rows

RNG = np.random.default_rng(11)
FIRST = [RNG.normal(size=(7, 4)), RNG.normal(size=(5, 4))]


def test_columns_get_length_one_and_the_lengths_lead_back():
    unit, lengths = unit_columns(FIRST[0])
    assert np.allclose(np.linalg.norm(unit, axis=0), 1.0, atol=1e-15)
    assert np.allclose(unit * lengths, FIRST[0], rtol=1e-15)


def test_an_empty_column_stays_empty_with_length_one():
    unit, lengths = unit_columns(np.array([[3.0, 0.0], [4.0, 0.0]]))
    assert np.array_equal(unit, [[0.6, 0.0], [0.8, 0.0]])
    assert np.array_equal(lengths, [5.0, 1.0])


def test_signs_make_the_largest_entry_positive():
    factor = np.array([[1.0, 2.0, 0.0], [-3.0, -1.0, 0.0]])
    signs = readable_signs(factor)
    assert np.array_equal(signs, [-1.0, 1.0, 1.0])
    assert np.array_equal((factor * signs).max(axis=0), [3.0, 2.0, 0.0])


@pytest.mark.parametrize("mode", [0, 1, 2, None])
def test_the_gram_of_the_others_is_that_of_their_khatri_rao_product(mode):
    made = [np.random.default_rng(n).normal(size=(n + 2, 3)) for n in range(3)]
    others = [factor for n, factor in enumerate(made) if n != mode]
    product = others[0]
    for factor in others[1:]:
        product = khatri_rao(product, factor)
    assert np.allclose(gram_of_others(made, mode), product.T @ product, rtol=1e-12)


def test_matching_finds_the_permutation_whatever_sign_and_scale():
    order = np.array([2, 0, 3, 1])
    second = [FIRST[0][:, order] * [-2.0, 1.0, 5.0, 1.0], FIRST[1][:, order] * [1.0, -0.1, -1.0, 9]]
    match = match_components(FIRST, second)
    assert np.array_equal(order[match.other], np.arange(4))
    assert np.allclose(match.similarity, 1.0, atol=1e-12)


def test_one_permutation_serves_all_modes():
    """Two components that swap partners in one mode only match nothing fully."""
    second = [FIRST[0], FIRST[1][:, [1, 0, 2, 3]]]
    match = match_components(FIRST, second)
    assert np.allclose(match.similarity[2:], 1.0)
    assert (match.similarity[:2] < 0.999).all()


def test_the_matching_is_the_best_in_total_not_the_greedy_one():
    first = [np.eye(2), np.ones((1, 2))]
    second = [np.array([[0.9, 0.95], [np.sqrt(1 - 0.81), np.sqrt(1 - 0.9025)]]), np.ones((1, 2))]
    table = similarity_matrix(first, second)
    assert table.argmax() == 1  # a greedy choice would take (0, 1) and leave (1, 0)
    match = match_components(first, second)
    best = max(table[0, 0] + table[1, 1], table[0, 1] + table[1, 0])
    assert match.similarity.sum() == pytest.approx(best)


def test_surplus_components_stay_unmatched():
    fewer = [factor[:, [3, 1]] for factor in FIRST]
    match = match_components(FIRST, fewer)
    assert match.other.tolist() == [-1, 1, -1, 0]
    assert np.allclose(match.similarity, [0, 1, 0, 1])
    back = match_components(fewer, FIRST)
    assert back.other.tolist() == [3, 1]
    assert factor_match_score(FIRST, fewer) == pytest.approx(1.0)


@given(
    made=factors((6, 4, 3), 5),
    order=st.permutations(range(5)),
    signs=st.lists(st.sampled_from([-1.0, 1.0]), min_size=5, max_size=5),
)
@settings(max_examples=60, deadline=None)
def test_the_score_is_one_for_the_same_phenotypes_in_disguise(made, order, signs):
    order = list(order)
    disguised = [made[0][:, order] * signs, made[1][:, order] * 3.0, made[2][:, order] * 0.01]
    alive = np.all([np.abs(factor).sum(axis=0) > 0 for factor in made], axis=0)
    assert factor_match_score(made, disguised) == pytest.approx(alive.mean(), abs=1e-12)


@given(first=factors((6, 4), 3), second=factors((6, 4), 5))
@settings(max_examples=60, deadline=None)
def test_the_score_is_the_same_from_both_sides_and_lies_between_zero_and_one(first, second):
    score = factor_match_score(first, second)
    assert score == pytest.approx(factor_match_score(second, first), abs=1e-12)
    assert 0.0 <= score <= 1.0


def test_the_score_of_unlike_phenotypes_is_the_mean_of_the_cosines():
    first = [np.eye(2), np.eye(2)]
    half = np.array([[np.cos(0.5), -np.sin(0.5)], [np.sin(0.5), np.cos(0.5)]])
    assert factor_match_score(first, [half, half]) == pytest.approx(np.cos(0.5) ** 2)


def test_factors_by_name_are_matched_mode_by_mode():
    ours = {"med": FIRST[0], "dx": FIRST[1]}
    theirs = {"dx": FIRST[1], "med": FIRST[0]}
    assert factor_match_score(ours, theirs) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        ({"med": FIRST[0]}, {"dx": FIRST[0]}, "factors of modes"),
        ({"med": FIRST[0]}, [FIRST[0]], "both as lists"),
        (FIRST, FIRST[:1], "different sizes"),
        (FIRST, FIRST[::-1], "different sizes"),
    ],
)
def test_factors_that_do_not_belong_together_are_refused(first, second, words):
    with pytest.raises(BadShape, match=words):
        match_components(first, second)


# ── singular Gram matrices ────────────────────────────────────────────────────────────────────


def test_a_regular_gram_is_left_as_it_is():
    gram = FIRST[0].T @ FIRST[0]
    kept, ridged = regular(gram)
    assert kept is gram
    assert not ridged


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e9])
def test_two_equal_components_get_a_ridge_at_any_scale(scale):
    gram = scale * np.array([[2.0, 2.0, 0.0], [2.0, 2.0, 0.0], [0.0, 0.0, 5.0]])
    mended, ridged = regular(gram)
    assert ridged
    assert np.allclose(mended - gram, RIDGE * np.diag(np.diag(gram)), rtol=1e-6, atol=0.0)
    assert np.linalg.eigvalsh(mended)[0] > 0.0
    assert np.isfinite(np.linalg.cholesky(mended)).all()


@pytest.mark.parametrize("share", [1e-12, 1e-10, 1e-8, 1e-6])
def test_grams_that_differ_in_the_last_bits_stay_as_near_when_mended(share):
    """Wherever the smallest eigenvalue lies: no threshold parts two hospitals."""
    rng = np.random.default_rng(0)
    turn = np.linalg.qr(rng.normal(size=(4, 4)))[0]
    near = [
        regular((turn * np.array([nudge * share, 1.0, 1.0, 2.0])) @ turn.T)[0]
        for nudge in (1.0 - 1e-6, 1.0 + 1e-6)
    ]
    assert np.abs(near[0] - near[1]).max() <= 2e-5 * share + 1e-14


@pytest.mark.parametrize("apart", [0.0, 1e-9, 1e-6, 1e-4, 1e-3])
def test_machines_that_round_differently_solve_alike_where_two_components_coincide(apart):
    rng = np.random.default_rng(0)
    patients, codes = rng.random((200, 6)), unit_columns(rng.random((40, 6)))[0]
    for factor in (patients, codes):
        factor[:, 1] = factor[:, 0] + apart * rng.random(len(factor))
    gram = (patients.T @ patients) * (codes.T @ codes)
    mttkrp, found = rng.random((50, 6)) @ gram, []
    for _machine in range(8):
        rounding = 1.5e-16 * rng.standard_normal(gram.shape)
        own, _ = regular(gram * (1.0 + rounding + rounding.T))
        found.append(unit_columns(solve_rows(mttkrp, own, nonnegative=True))[0])
    assert max(np.abs(other - found[0]).max() for other in found) < 1e-9


def test_a_ridge_against_components_alike_does_not_press_a_small_one():
    gram = np.array([[2.0, 2.0, 0.0], [2.0, 2.0, 0.0], [0.0, 0.0, 1e-7]])
    mended, _ = regular(gram)
    assert mended[2, 2] == pytest.approx(gram[2, 2], rel=1e-5)


def test_an_empty_gram_becomes_solvable():
    mended, ridged = regular(np.zeros((3, 3)))
    assert ridged
    assert np.array_equal(mended, np.eye(3))
