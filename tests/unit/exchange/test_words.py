"""Floats become whole numbers of the field, and scales follow totals in whole numbers alone."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tripheno.errors import BadMessage, CannotAgreeOnScale
from tripheno.exchange import words
from tripheno.exchange.fixed_point import NARROWEST, Layout
from tripheno.exchange.keys import from_seed
from tripheno.exchange.words import Scales, decode, encode, first_exponents, overflow_of

LAYOUT = Layout.named({"matrix": (200, 3), "vector": (7,), "long": (400,), "number": ()})
NOISE = words.noise_from(from_seed(0, "noise"), "overflow")


def part(seed, scale=1.0):
    return np.random.default_rng(seed).normal(scale=scale, size=LAYOUT.size)


@pytest.mark.parametrize("hospitals", [1, 2, 3, 10, 64])
def test_a_sum_of_words_is_the_sum_of_numbers(hospitals):
    exponents = np.full(LAYOUT.lanes, 4)
    parts = [part(seed) for seed in range(hospitals)]
    total = sum(encode(LAYOUT, one, exponents, hospitals, NOISE) for one in parts)
    assert not overflow_of(LAYOUT, total).any()
    found = LAYOUT.flat(decode(LAYOUT, total, exponents, hospitals))
    assert np.abs(found - np.sum(parts, axis=0)).max() <= hospitals * 2.0 ** (4 - 60 + 7)


def test_lanes_are_the_layouts():
    exponents = np.arange(LAYOUT.lanes)
    flat = np.ldexp(1.0, exponents - 1)[LAYOUT.lane_of]
    encoded = encode(LAYOUT, flat, exponents, 3, NOISE)
    assert (encoded[: LAYOUT.size] == 1 << 57).all()


@pytest.mark.parametrize("hospitals", [1, 3, 64])
def test_the_largest_numbers_of_all_hospitals_do_not_wrap(hospitals):
    edge = np.nextafter(16.0, 0.0)
    flat = np.full(LAYOUT.size, edge)
    encoded = encode(LAYOUT, flat, np.full(LAYOUT.lanes, 4), hospitals, NOISE)
    assert not overflow_of(LAYOUT, encoded).any()
    assert hospitals * int(encoded.max()) < 1 << 60
    flat[5] = 16.0
    assert overflow_of(LAYOUT, encode(LAYOUT, flat, np.full(LAYOUT.lanes, 4), 3, NOISE)).sum() == 1


def test_a_lane_that_overflows_is_random_and_flagged_and_no_other():
    flat = part(0)
    flat[4] = 1e30  # matrix, column 1 (arrays stand in the order of their names)
    lane = LAYOUT.lane_of[4]
    exponents = np.full(LAYOUT.lanes, 4)
    one, two = (encode(LAYOUT, flat, exponents, 3, NOISE) for _ in range(2))
    lost = LAYOUT.lane_of == lane
    assert overflow_of(LAYOUT, one).nonzero()[0].tolist() == [lane]
    assert (one[: LAYOUT.size][lost] != two[: LAYOUT.size][lost]).all()
    assert (one[: LAYOUT.size][~lost] == two[: LAYOUT.size][~lost]).all()
    with pytest.raises(CannotAgreeOnScale):
        decode(LAYOUT, one, exponents, 3)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_numbers_that_are_not_finite_are_refused(bad):
    flat = part(0)
    flat[1] = bad
    with pytest.raises(BadMessage):
        encode(LAYOUT, flat, first_exponents(LAYOUT, 3), 3, NOISE)


def agree(scales, step, parts):
    """One sum as the maker of sums does it; how often it was sent."""
    exponents, failed = scales.exponents(step, LAYOUT), np.full(LAYOUT.lanes, NARROWEST)
    for attempt in range(9):
        total = sum(encode(LAYOUT, one, exponents, len(parts), NOISE) for one in parts)
        overflow = overflow_of(LAYOUT, total)
        if not overflow.any():
            scales.learn(step, LAYOUT, exponents, total, failed)
            return LAYOUT.flat(decode(LAYOUT, total, exponents, len(parts))), attempt + 1
        failed = np.where(overflow, exponents, failed)
        exponents = scales.widened(exponents, overflow, attempt)
    raise AssertionError


@settings(max_examples=30, deadline=None)
@given(st.integers(-100, 100), st.integers(1, 5), st.integers(0, 1000))
def test_scales_find_any_size_and_keep_its_digits(size, hospitals, seed):
    scales, rng = Scales(hospitals), np.random.default_rng(seed)
    sent = []
    for step in range(6):  # below 2⁻⁷⁵ the fourth may go twice: a lane of zeros is neared by steps
        parts = [rng.normal(scale=2.0**size, size=LAYOUT.size) for _ in range(hospitals)]
        total, times = agree(scales, f"fit/{step}/1", parts)
        sent.append(times)
    assert sent[-2:] == [1, 1]
    assert np.abs(total - np.sum(parts, axis=0)).max() <= 2.0 ** (size - 36)


def test_numbers_that_fit_no_scale_end_with_a_clear_error():
    with pytest.raises(CannotAgreeOnScale):
        Scales(3).widened(np.zeros(3), np.ones(3, dtype=bool), words.MOST_WIDENINGS)


def test_scales_go_on_from_a_checkpoint_as_if_nothing_had_happened():
    one, rng = Scales(3), np.random.default_rng(0)
    rows = [[rng.normal(scale=10.0**n, size=LAYOUT.size) for _ in range(3)] for n in range(6)]
    for n, parts in enumerate(rows[:3]):
        agree(one, f"fit/{n}/1", parts)
    two = Scales(3)
    two.take(one.to_arrays())
    for n, parts in enumerate(rows[3:]):
        assert agree(one, f"fit/{n}/1", parts)[1] == agree(two, f"fit/{n}/1", parts)[1]
    assert {k: v.tolist() for k, v in one.to_arrays().items()} == {
        k: v.tolist() for k, v in two.to_arrays().items()
    }
    assert all(lanes.dtype == np.dtype("<i8") for lanes in one.to_arrays().values())


def test_a_lane_of_zeros_stays_at_its_declarations_scale():
    scales, declared = Scales(3), np.full(LAYOUT.lanes, 33)
    for n in range(3):
        used = scales.exponents(f"fit/{n}/1", LAYOUT, declared)
        assert (used == 33).all()
        nothing = np.zeros(words.words_of(LAYOUT), dtype=np.int64)
        none_failed = np.full(LAYOUT.lanes, NARROWEST)
        scales.learn(f"fit/{n}/1", LAYOUT, used, nothing, none_failed, declared)


def test_a_declarations_scale_comes_first_and_what_was_learnt_after_it():
    scales, declared = Scales(3), np.full(LAYOUT.lanes, 33)
    assert (scales.exponents("fit/0/1", LAYOUT, declared) == 33).all()
    agree(scales, "fit/0/1", [part(n) for n in range(3)])
    assert (scales.exponents("fit/1/1", LAYOUT, declared) < 20).all()


@given(st.lists(st.integers(0, (1 << 60) - 1) | st.sampled_from([(1 << 53) + 1, (1 << 54) - 1])))
def test_bits_are_counted_exactly(values):
    found = words._bit_lengths(np.array(values, dtype=np.int64))
    assert found.tolist() == [value.bit_length() for value in values]


@example([0.0, 5e263], 3)
@given(
    st.lists(st.floats(-(2.0**900), 2.0**900).filter(lambda x: x == 0 or abs(x) > 2.0**-40),
             min_size=2, max_size=4),
    st.sampled_from([3, 64]),
)  # fmt: skip
def test_a_lane_of_zeros_that_meets_a_large_number_keeps_its_digits(numbers, hospitals):
    """A jump to so wide a scale that the number rounds to zero would lose it: an objection, say."""
    layout, scales = Layout.named({"objections": (1,)}), Scales(hospitals)
    for step, number in enumerate([0.0, *sorted(numbers, key=abs)]):
        exponents = scales.exponents(f"count/{step}", layout)
        failed = np.full(layout.lanes, NARROWEST)
        for attempt in range(words.MOST_WIDENINGS + 1):
            encoded = encode(layout, np.array([number]), exponents, hospitals, NOISE)
            overflow = overflow_of(layout, encoded)
            if not overflow.any():
                break
            failed = np.where(overflow, exponents, failed)
            exponents = scales.widened(exponents, overflow, attempt)
        scales.learn(f"count/{step}", layout, exponents, encoded, failed)
        found = decode(layout, encoded, exponents, hospitals)["objections"][0]
        assert found == pytest.approx(number, rel=1e-5, abs=2.0**-30)


@pytest.mark.parametrize("seed", range(20))
def test_the_loop_equals_plain_arithmetic(seed):
    rng = np.random.default_rng(seed)
    flat = rng.normal(scale=10.0 ** rng.integers(-3, 7), size=LAYOUT.size)
    exponents = rng.integers(0, 25, LAYOUT.lanes)
    scaled = np.rint(flat * np.ldexp(1.0, 58 - exponents)[LAYOUT.lane_of])
    too_large = np.zeros(LAYOUT.lanes, dtype=bool)
    np.logical_or.at(too_large, LAYOUT.lane_of, np.abs(scaled) >= 2.0**58)
    found = encode(LAYOUT, flat, exponents, 3, NOISE)
    fits = ~too_large[LAYOUT.lane_of]
    assert (overflow_of(LAYOUT, found) == too_large).all()
    assert (found[: LAYOUT.size][fits] == scaled[fits].astype(np.int64)).all()


def test_a_first_total_of_few_digits_is_looked_at_again_and_a_known_one_is_not():
    scales, tiny = Scales(3), np.ones(words.words_of(LAYOUT), dtype=np.int64)
    used, none_failed = scales.exponents("fit/0/1", LAYOUT), np.full(LAYOUT.lanes, NARROWEST)
    assert scales.too_coarse("fit/0/1", LAYOUT, tiny)
    assert not scales.too_coarse("fit/0/1", LAYOUT, np.zeros_like(tiny))
    assert not scales.too_coarse("fit/0/1", LAYOUT, tiny << words.FEWEST_BITS)
    scales.learn("fit/0/1", LAYOUT, used, tiny, none_failed)
    assert not scales.too_coarse("fit/1/1", LAYOUT, tiny)
    assert (scales.exponents("fit/1/1", LAYOUT) < used - 20).all()


def test_how_many_scales_a_layout_has_needs_no_array_of_its_size():
    huge = Layout.named({"matrix": (10**9, 10**4), "row": (10**12,), "few": (10, 5)})
    assert huge.lanes == 10**4 + 1 + 50
    assert LAYOUT.lanes == LAYOUT.lane_of.max() + 1
