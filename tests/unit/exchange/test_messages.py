"""What crosses a hospital's wall: the same out as in, or refused."""

from __future__ import annotations

import json
import struct
from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tripheno.errors import BadMessage
from tripheno.exchange import messages as wire
from tripheno.exchange.messages import Contribution, Message, pack, unpack
from tripheno.exchange.registry import Sizes, zeros
from tripheno.solver import messages as solver_messages
from tripheno.solver.messages import (
    Lengths,
    Measures,
    NormalEquations,
    OwnFactors,
    Proposal,
    Review,
    Totals,
)

KINDS = sorted(
    (
        kind
        for kind in vars(solver_messages).values()
        if isinstance(kind, type)
        and issubclass(kind, Message)
        and kind.__module__ == solver_messages.__name__
    ),
    key=lambda kind: kind.__name__,
)
every_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)


def filled(kind, seed=0):
    """A message of a type with something in every field."""
    rng = np.random.default_rng(seed)
    values = {
        "int": lambda: int(rng.integers(-5, 100)),
        "float": lambda: float(rng.normal()),
        "np.ndarray": lambda: rng.normal(size=(3, 2)),
        "tuple[np.ndarray, ...]": lambda: (rng.normal(size=(3, 2)), rng.normal(size=(4, 2))),
    }
    return kind(**{field.name: values[str(field.type)]() for field in fields(kind)})


def block(header, data=b""):
    """A safetensors block with any header at all."""
    head = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(head)) + head + data


def entry(dtype, shape, begin, end):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def test_the_solver_has_the_message_types_this_file_looks_at():
    assert {NormalEquations, OwnFactors, Proposal, Totals} <= set(KINDS)
    assert all(issubclass(kind, Contribution) or kind is OwnFactors for kind in KINDS)


@every_kind
def test_a_message_comes_out_as_it_went_in(kind):
    message = filled(kind)
    again = kind.unpack(message.pack())
    assert type(again) is kind
    for field in fields(kind):
        before, after = getattr(message, field.name), getattr(again, field.name)
        assert type(after) is type(before)
        if isinstance(before, tuple):
            assert len(before) == len(after)
            assert all(np.array_equal(a, b) for a, b in zip(before, after, strict=True))
        else:
            assert np.array_equal(before, after)


@every_kind
def test_the_same_message_is_always_the_same_bytes(kind):
    assert filled(kind).pack() == filled(kind).pack()


@pytest.mark.parametrize(
    "array",
    [
        np.arange(12.0).reshape(3, 4).T,
        np.arange(12.0)[::3],
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.arange(6, dtype=np.float32).reshape(2, 3),
        np.arange(6, dtype=">f8"),
        np.zeros((0, 4)),
        np.array([True, False]),
    ],
    ids=["transposed", "strided", "fortran", "float32", "big-endian", "empty", "bool"],
)
def test_any_array_in_memory_is_sent_as_its_values(array):
    again = Review.unpack(Review(array).pack()).review
    assert again.dtype == np.float64
    assert again.shape == array.shape
    assert np.array_equal(again, array)


def test_numbers_keep_their_kind_and_their_last_bit():
    own = OwnFactors.unpack(OwnFactors(2**40, -1, ()).pack())
    assert (own.iterations, own.converged) == (2**40, -1)
    assert isinstance(own.iterations, int)
    totals = Totals.unpack(Totals(0.1, 2.0**60, -0.0).pack())
    assert (totals.null_loss, totals.nonzeros) == (0.1, 2.0**60)
    assert isinstance(totals.null_loss, float)


@pytest.mark.parametrize(
    "kind", [Totals, NormalEquations, Proposal, Measures], ids=lambda kind: kind.__name__
)
def test_the_zeros_of_a_contribution_have_the_shapes_of_its_protocol(kind):
    sums = zeros(kind, Sizes((4, 5), 2, 2))
    again = type(sums).from_arrays(sums.arrays())
    assert {name: a.shape for name, a in again.arrays().items()} == {
        name: a.shape for name, a in sums.arrays().items()
    }
    assert not any(array.any() for array in sums.arrays().values())


# ── what is refused ───────────────────────────────────────────────────────────────────────────


@every_kind
def test_a_message_cut_short_anywhere_is_refused(kind):
    whole = filled(kind).pack()
    for length in range(len(whole)):
        with pytest.raises(BadMessage):
            kind.unpack(whole[:length])


@every_kind
def test_a_byte_too_many_is_refused(kind):
    with pytest.raises(BadMessage, match=kind.__name__):
        kind.unpack(filled(kind).pack() + b"\0")


@every_kind
def test_an_unknown_field_is_refused_by_name(kind):
    arrays = {**filled(kind).arrays(), "patient_factor": np.zeros((5, 2))}
    with pytest.raises(BadMessage, match="patient_factor"):
        kind.unpack(pack(arrays))


@every_kind
def test_a_missing_field_is_refused_by_name(kind):
    arrays = filled(kind).arrays()
    for name in arrays:
        if "." not in name:
            rest = {other: array for other, array in arrays.items() if other != name}
            with pytest.raises(BadMessage, match=f"'{name}' is missing"):
                kind.unpack(pack(rest))


def test_a_gap_in_a_list_of_factors_is_refused():
    arrays = OwnFactors(1, 1, (np.zeros((2, 2)),)).arrays()
    with pytest.raises(BadMessage, match=r"factors\.2"):
        OwnFactors.unpack(pack({**arrays, "factors.2": np.zeros((2, 2))}))


@every_kind
@pytest.mark.parametrize("poison", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite_are_refused(kind, poison):
    arrays = filled(kind).arrays()
    for name, array in arrays.items():
        if array.dtype.kind == "f":
            spoilt = array.copy()
            spoilt.flat[-1] = poison
            with pytest.raises(BadMessage, match="not finite"):
                kind.unpack(pack({**arrays, name: spoilt}))


def test_an_array_where_a_number_belongs_is_refused():
    arrays = filled(Totals).arrays()
    with pytest.raises(BadMessage, match="'nonzeros' is no number"):
        Totals.unpack(pack({**arrays, "nonzeros": np.zeros(1)}))


@pytest.mark.parametrize("number", [2.5, 3.0, 1e300])
def test_a_broken_number_where_a_whole_one_belongs_is_refused(number):
    arrays = filled(OwnFactors).arrays()
    with pytest.raises(BadMessage, match="'iterations' is not whole"):
        OwnFactors.unpack(pack({**arrays, "iterations": np.array(number)}))


@pytest.mark.parametrize(
    ("dtype", "size"),
    [("F16", 2), ("F32", 4), ("BF16", 2), ("C64", 8), ("BOOL", 1), ("I8", 1), ("F8_E4M3", 1)],
)
@pytest.mark.parametrize("byte", [b"\x01", b"\xff"])
def test_types_no_message_has_are_refused(dtype, size, byte):
    """Among them complex numbers, whose NaN would pass a check of real ones."""
    data = block({"review": entry(dtype, [1], 0, size)}, byte * size)
    with pytest.raises(BadMessage):
        Review.unpack(data)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0" * 8,
        b"\xff" * 8,
        b"\x80\x04\x95pickle",
        struct.pack("<Q", 2**63) + b"{}",
        struct.pack("<Q", 100_000_001) + b"{}",
        block(b"[" * 100_000),
        block(b'{"review":'),
        block(b"\xff\xfe"),
        block(b"null"),
        block([]),
        block({"review": None}),
        block({"review": {"dtype": "F64"}}),
        block({"review": entry("F64", [2**62, 4], 0, 0)}),
        block({"review": entry("F64", [0, 2**62], 0, 0)}),
        block({"review": entry("F64", [1] * 70, 0, 8)}, b"\0" * 8),
        block({"review": entry("F64", [-1], 0, 8)}, b"\0" * 8),
        block({"review": entry("F64", [1.5], 0, 8)}, b"\0" * 8),
        block({"review": entry("F64", [1], 8, 0)}, b"\0" * 8),
        block({"review": entry("F64", [1], 0, 16)}, b"\0" * 8),
        block({"review": entry("F64", [1], 0, 8), "x": entry("F64", [1], 0, 8)}, b"\0" * 8),
        block({"review": entry("O", [1], 0, 8)}, b"\0" * 8),
        block({"__metadata__": {"review": "1"}}),
    ],
)
def test_hostile_bytes_are_refused(data):
    with pytest.raises(BadMessage) as caught:
        Review.unpack(data)
    assert "Review" in str(caught.value)


def test_an_oversized_message_is_refused_before_it_is_read(monkeypatch):
    data = filled(Review).pack()
    monkeypatch.setattr(wire, "LARGEST_MESSAGE", len(data) - 1)
    monkeypatch.setattr(wire, "load", lambda data: pytest.fail("it was read"))
    with pytest.raises(BadMessage, match="more than a message may have"):
        Review.unpack(data)
    monkeypatch.undo()
    monkeypatch.setattr(wire, "LARGEST_MESSAGE", len(data))
    assert Review.unpack(data).review.shape == (3, 2)


def test_a_long_field_name_is_cut_in_the_refusal():
    with pytest.raises(BadMessage) as caught:
        unpack(pack({"x" * 5_000: np.array(np.nan)}), where="test")
    assert len(str(caught.value)) < 200


WHOLE = [filled(kind, seed).pack() for seed, kind in enumerate(KINDS)]
HEADER_JUNK = st.sampled_from([0, 1, -1, 8, 2**31, 2**63, None, "F64", "I64", "x", [], {}, 1.5])


@st.composite
def mangled(draw):
    """Random bytes, or a good message with bytes changed, cut, added, or its header rewritten."""
    way = draw(st.sampled_from(["random", "headed", "bytes", "cut", "insert", "header"]))
    if way == "random":
        return draw(st.binary(max_size=200))
    if way == "headed":
        return block(draw(st.binary(max_size=100)), draw(st.binary(max_size=50)))
    data = bytearray(draw(st.sampled_from(WHOLE)))
    if way == "bytes":
        for at, byte in draw(
            st.lists(
                st.tuples(st.integers(0, len(data) - 1), st.integers(0, 255)),
                min_size=1,
                max_size=8,
            )
        ):
            data[at] = byte
        return bytes(data)
    at = draw(st.integers(0, len(data)))
    if way == "cut":
        return bytes(data[:at])
    if way == "insert":
        return bytes(data[:at]) + draw(st.binary(min_size=1, max_size=20)) + bytes(data[at:])
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8 : 8 + length])
    name = draw(st.sampled_from(sorted(header)))
    part = draw(st.sampled_from(["dtype", "shape", "data_offsets", "name"]))
    junk = draw(st.one_of(HEADER_JUNK, st.lists(HEADER_JUNK, max_size=3)))
    if part == "name":
        header[str(junk)] = header.pop(name)
    else:
        header[name][part] = junk
    return block(header, bytes(data[8 + length :]))


@given(data=mangled())
@settings(max_examples=1_000)
def test_mangled_bytes_raise_nothing_but_a_refusal(data):
    for kind in KINDS:
        try:
            message = kind.unpack(data)
        except BadMessage:
            continue
        arrays = message.arrays().values()
        assert all(np.isfinite(array).all() for array in arrays)


# ── no patient crosses the wall ───────────────────────────────────────────────────────────────


@every_kind
def test_no_message_has_a_field_the_size_of_its_patients(kind):
    """Only two fields speak of patients: how many there are, and their Gram matrix, R × R."""
    rank = 3
    for field in fields(kind):
        if "patient" not in field.name:
            continue
        if field.name == "patient_gram":
            empty = zeros(kind, Sizes((5, 4), rank, rank))
            assert empty.patient_gram.shape == (rank, rank)
        else:
            assert kind in (Totals, Lengths)
            assert (field.name, str(field.type)) == ("patients", "float")


@every_kind
def test_no_message_has_room_for_anything_but_numbers_and_arrays(kind):
    allowed = {"int", "float", "np.ndarray", "tuple[np.ndarray, ...]"}
    assert {str(field.type) for field in fields(kind)} <= allowed
    assert kind.__dataclass_params__.frozen
