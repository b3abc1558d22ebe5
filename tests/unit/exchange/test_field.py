"""The field's loops equal plain whole-number arithmetic."""

from __future__ import annotations

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CTR
from hypothesis import given, settings
from hypothesis import strategies as st

from tripheno.exchange import field, field_kernels
from tripheno.exchange.keys import expand

P = field.P
KEYS = [bytes([n]) * 32 for n in range(5)]
EDGES = [0, 1, 2, (1 << 29) - 1, 1 << 32, (1 << 60) - 1, 1 << 60, P - 2, P - 1]
elements = st.lists(st.one_of(st.sampled_from(EDGES), st.integers(0, P - 1)), max_size=40)
raws = st.integers(0, field.LIMIT - 1) | st.sampled_from([P, P + 1, field.LIMIT - 1])


def words(values):
    return np.array(values, dtype="<u8")


def plain_stream(key, size):
    """Elements of a stream, word by word."""
    zeros = bytes(8 * size)
    data = Cipher(AES(expand(key, b"stream")), CTR(bytes(16))).encryptor().update(zeros)
    found = [int.from_bytes(data[at : at + 8], "little") for at in range(0, 8 * size, 8)]
    assert max(found, default=0) < field.LIMIT
    return [word % P for word in found]


@settings(max_examples=200, deadline=None)
@given(st.data(), elements)
def test_loops_equal_plain_arithmetic(data, values):
    raw = data.draw(st.lists(raws, min_size=len(values), max_size=len(values)))
    added, taken, summed = words(values), words(values), words(values)
    field_kernels.add_stream(added, words(raw))
    field_kernels.subtract_stream(taken, words(raw))
    field_kernels.add_words(summed, words([r % P for r in raw]))
    assert added.tolist() == [(v + r) % P for v, r in zip(values, raw, strict=True)]
    assert taken.tolist() == [(v - r) % P for v, r in zip(values, raw, strict=True)]
    assert summed.tolist() == added.tolist()
    low, high = field_kernels.inner_product(words(values), words(raw))
    expected = sum(v * r for v, r in zip(values, raw, strict=True))
    assert (int(low) + (int(high) << 32)) % P == expected % P


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(-field.LARGEST, field.LARGEST), max_size=40))
def test_numbers_go_into_the_field_and_come_out_again(values):
    inside = field.into_field(np.array(values, dtype="<i8"))
    assert inside.tolist() == [v % P for v in values]
    assert field.out_of_field(inside).tolist() == values


@pytest.mark.parametrize("size", [0, 1, 5, field.CHUNK, field.CHUNK + 3])
def test_a_sealed_row_equals_its_plain_twin(size):
    numbers = np.random.default_rng(size).integers(-(1 << 58), 1 << 58, size)
    values = [int(n) for n in numbers]
    tag = sum(a * x for a, x in zip(plain_stream(KEYS[0], size), values, strict=True)) % P
    masks = [plain_stream(key, size + 1) for key in KEYS[1:4]]
    expected = [(x + a + b - c) % P for x, a, b, c in zip([*values, tag], *masks, strict=True)]
    assert field.sealed(numbers, KEYS[0], KEYS[1:3], KEYS[3:4]).tolist() == expected


def test_words_that_would_be_unfair_are_drawn_again_the_same_way_at_every_hospital():
    top = (1 << 64) - 1
    one, two = words([5, field.LIMIT, 7, top]), words([field.LIMIT, 7, top])
    field.replace_unfair(one, 10, KEYS[0])
    field.replace_unfair(two, 11, KEYS[0])
    assert one.tolist()[1:] == two.tolist()
    assert one.tolist()[0::2] == [5, 7]
    assert int(one.max()) < field.LIMIT
    assert one[1] != one[3]
    drawn = expand(KEYS[0], b"again" + bytes([11, 0, 0, 0, 0, 0, 0, 0]) + bytes(4))
    assert int(one[1]) == int.from_bytes(drawn[:8], "little")


def test_noise_fills_the_field_evenly():
    found = field.uniform(KEYS[0], 40_000)
    counts = np.bincount((found.astype(np.float64) / 2.0**60 * 8 + 8).astype(int), minlength=16)
    assert counts.size == 16
    assert np.abs(counts - 2500).max() < 5 * np.sqrt(2500)
