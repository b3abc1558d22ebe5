"""Ways into a count tensor, ways on, and what is refused at the border."""

from __future__ import annotations

import gzip
from datetime import datetime, timedelta

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kit.strategies import count_tensors
from tripheno.errors import BadCells, BadEvents, BadShape, EmptyTensor, NoSuchFile, SettingsError
from tripheno.records.events import CountingRule, write_events
from tripheno.tensor import CountTensor, pooled
from tripheno.tensor.cells import Cells
from tripheno.vocabulary.axis import Axis

INDICES = [[0, 0, 0], [0, 1, 2], [2, 1, 0]]
COUNTS = [1, 2, 3]


def dense(*cells, shape):
    array = np.zeros(shape)
    for *index, count in cells:
        array[tuple(index)] = count
    return array


def assert_sound(tensor):
    """What every tensor promises to the kernels, which check nothing."""
    starts, indices, values = tensor.cells.starts, tensor.cells.indices, tensor.cells.values
    assert starts[0] == 0
    assert starts[-1] == len(values) == len(indices) == tensor.nonzeros
    assert (np.diff(starts) >= 0).all()
    assert len(starts) == tensor.patients + 1
    assert indices.dtype == np.int32
    assert indices.flags.c_contiguous
    assert indices.shape[1] == len(tensor.axes)
    assert (indices >= 0).all()
    assert (indices < np.array(tensor.shape[1:])).all()
    assert (values > 0).all()
    assert values.dtype == (np.uint8 if values.max(initial=0) < 256 else np.uint32)
    rows = np.column_stack([tensor.patient_of_cell, indices])
    assert np.array_equal(np.unique(rows, axis=0), rows)  # in order, none twice


# ── from cells ────────────────────────────────────────────────────────────────────────────────


def test_cells_stand_where_they_were_put():
    tensor = CountTensor.from_cells(INDICES, COUNTS, shape=(4, 2, 3), modes=("med", "dx"))
    assert tensor.shape == (4, 2, 3)
    assert tensor.modes == ("med", "dx")
    assert tensor.squared_norm == 14.0
    expected = dense((0, 0, 0, 1), (0, 1, 2, 2), (2, 1, 0, 3), shape=(4, 2, 3))
    assert np.array_equal(tensor.to_tensorly(), expected)
    assert_sound(tensor)


def test_the_shape_is_the_smallest_that_fits_unless_given():
    assert CountTensor.from_cells(INDICES, COUNTS).shape == (3, 2, 3)
    assert CountTensor.from_cells(INDICES, COUNTS).modes == ("mode2", "mode3")


def test_equal_cells_are_added_and_zeros_dropped():
    tensor = CountTensor.from_cells([[1, 0, 1], [0, 0, 0], [1, 0, 1]], [2, 0, 5])
    assert tensor.nonzeros == 1
    assert np.array_equal(tensor.to_tensorly(), dense((1, 0, 1, 7), shape=(2, 1, 2)))
    assert_sound(tensor)


@given(tensor=count_tensors(), seed=st.integers(0, 1000))
@settings(max_examples=60, deadline=None)
def test_the_order_of_cells_does_not_matter(tensor, seed):
    assert_sound(tensor)
    indices, values = tensor.coordinates()
    order = np.random.default_rng(seed).permutation(len(values))
    again = CountTensor.from_cells(indices[order], values[order], shape=tensor.shape)
    assert np.array_equal(again.to_tensorly(), tensor.to_tensorly())
    assert np.array_equal(again.cells.starts, tensor.cells.starts)
    assert np.array_equal(again.cells.indices, tensor.cells.indices)


def test_whole_numbers_may_come_as_floats_or_unsigned():
    for kind in (np.float64, np.float32, np.uint8, np.int16):
        tensor = CountTensor.from_cells(np.array(INDICES, kind), np.array(COUNTS, kind))
        assert tensor.squared_norm == 14.0


@pytest.mark.parametrize(("cap", "expected"), [(1, 1), (4, 4), (7, 7), (300, 7), (10**12, 7)])
def test_a_cap_bounds_the_sum_of_equal_cells(cap, expected):
    tensor = CountTensor.from_cells([[0, 0, 0], [0, 0, 0]], [3, 4], cap=cap)
    assert tensor.cells.values.tolist() == [expected]
    assert_sound(tensor)


def test_a_cap_saves_counts_that_would_be_too_large():
    assert CountTensor.from_cells([[0, 0, 0]], [2**40], cap=9).cells.values.tolist() == [9]


@pytest.mark.parametrize("cap", [0, -3])
def test_a_cap_below_one_is_refused(cap):
    with pytest.raises(SettingsError, match="cap must be 1 or more"):
        CountTensor.from_cells([[0, 0, 0]], [1], cap=cap)


@pytest.mark.parametrize(
    ("count", "kind"), [(255, np.uint8), (256, np.uint32), (2**32 - 1, np.uint32)]
)
def test_counts_are_kept_exactly_in_the_smallest_type(count, kind):
    tensor = CountTensor.from_cells([[0, 0, 0], [0, 1, 0]], [count, 1])
    assert tensor.cells.values.dtype == kind
    assert tensor.cells.values.tolist() == [count, 1]
    assert tensor.squared_norm == float(count) ** 2 + 1


@pytest.mark.parametrize("counts", [[2**32], [2**32 - 1, 1]])
def test_a_count_beyond_32_bits_is_refused(counts):
    with pytest.raises(BadCells, match=r"larger than 4,294,967,295 · set a cap"):
        CountTensor.from_cells([[0, 0, 0]] * len(counts), counts)


@pytest.mark.parametrize(
    ("indices", "values", "error", "words"),
    [
        (INDICES, [1, np.nan, 3], BadCells, "a count is not finite"),
        (INDICES, [1, np.inf, 3], BadCells, "a count is not finite"),
        (INDICES, [1, -2, 3], BadCells, "a count is negative"),
        (INDICES, [1, 2.5, 3], BadCells, "a count is fractional"),
        (INDICES, ["1", "2", "3"], BadCells, "a count is not a number"),
        (INDICES, [1, 2, None], BadCells, "a count is not a number"),
        (INDICES, [1, 2, 2.0**60], BadCells, "a count is too large"),
        ([[0, 0, np.nan]], [1], BadCells, "an index is not finite"),
        ([[0, 0, -1]], [1], BadCells, "an index is negative"),
        ([[0, 0, 0.5]], [1], BadCells, "an index is fractional"),
        ([["a", "b", "c"]], [1], BadCells, "an index is not a number"),
        ([[0, 0, 2**31]], [1], BadCells, "a mode is longer than 2,147,483,647"),
        ([[10**15, 0, 0]], [1], BadCells, "a mode is longer than 2,147,483,647"),
        ([[0, 0, 0], [1, 1]], [1, 2], BadCells, "rows of indices differ in length"),
        ([[], []], [1, 2], BadCells, "do not belong together"),
        (INDICES, [1, 2], BadCells, "do not belong together"),
        ([0, 0, 0], [1], BadCells, "do not belong together"),
        ([[[0, 0, 0]]], [1], BadCells, "do not belong together"),
        (INDICES, [[1], [2], [3]], BadCells, "do not belong together"),
        (np.zeros((0, 3)), [], EmptyTensor, "no cells"),
        (INDICES, [0, 0, 0], EmptyTensor, "Every count is zero"),
        ([[0, 0]], [1], BadShape, "1 feature mode"),
    ],
)
def test_malformed_cells_are_refused_in_words(indices, values, error, words):
    with pytest.raises(error) as caught:
        CountTensor.from_cells(indices, values)
    assert type(caught.value) is error
    assert words in str(caught.value)


def test_faults_of_indices_and_counts_are_listed_together():
    with pytest.raises(BadCells, match="an index is negative; a count is fractional"):
        CountTensor.from_cells([[0, 0, -1]], [0.5])


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"shape": (3, 2, 2)}, BadCells, "outside the shape"),
        ({"shape": (3, 2)}, BadCells, "indices have 3 modes, the shape 2"),
        ({"shape": (3, 2, 2**40)}, BadCells, "longer than"),
        ({"modes": ("only",)}, BadShape, r"1 name\(s\) for 2 feature mode"),
        ({"axes": (Axis("med", 2), Axis("dx", 1))}, BadCells, "outside the shape"),
        ({"axes": (Axis("med", 9), Axis("dx", 9)), "shape": (9, 9, 8)}, BadShape, "differ in size"),
        ({"axes": (Axis("med", 2),)}, BadCells, "indices have 3 modes, the shape 2"),
    ],
)
def test_what_does_not_fit_the_cells_is_refused(options, error, words):
    with pytest.raises(error, match=words):
        CountTensor.from_cells(INDICES, COUNTS, **options)


def test_axes_and_cells_must_have_the_same_sizes():
    cells = Cells(np.array([0, 1]), np.array([[0, 0]]), np.array([1]), (1, 1))
    with pytest.raises(BadShape, match="axes and cells differ in size"):
        CountTensor((Axis("med", 1), Axis("dx", 2)), cells)


# ── from a FROSTT file ────────────────────────────────────────────────────────────────────────


def test_a_frostt_file_counts_from_one(tmp_path):
    path = tmp_path / "small.tns"
    path.write_text("# a comment\n1 1 1 1.0\n1 2 3 2\n\n3 2 1 3\n")
    tensor = CountTensor.from_tns(path, modes=("med", "dx"))
    assert tensor.modes == ("med", "dx")
    expected = CountTensor.from_cells(INDICES, COUNTS)
    assert np.array_equal(tensor.to_tensorly(), expected.to_tensorly())


def test_a_packed_frostt_file_is_the_same_tensor(tmp_path):
    text = b"1 1 1 1\n1 2 3 2\n3 2 1 3\n"
    (tmp_path / "small.tns").write_bytes(text)
    (tmp_path / "small.tns.gz").write_bytes(gzip.compress(text))
    plain, packed = (CountTensor.from_tns(tmp_path / f"small.tns{end}") for end in ("", ".gz"))
    assert np.array_equal(plain.to_tensorly(), packed.to_tensorly())


def test_a_mode_in_which_a_zero_occurs_starts_at_zero(tmp_path):
    path = tmp_path / "zero.tns"
    path.write_text("1 0 1 1\n1 1 3 2\n3 1 1 3\n")
    expected = CountTensor.from_cells(INDICES, COUNTS)
    assert np.array_equal(CountTensor.from_tns(path).to_tensorly(), expected.to_tensorly())


def test_the_zero_indexed_twin_of_a_real_file_is_the_same_tensor(shared_data):
    one = CountTensor.from_tns(shared_data("tensors/splatt_small4.tns.gz"))
    zero = CountTensor.from_tns(shared_data("tensors/splatt_small4_zeroidx.tns.gz"))
    assert len(one.shape) == 4
    assert one.nonzeros > 0
    assert np.array_equal(one.to_tensorly(), zero.to_tensorly())


@pytest.mark.parametrize(
    ("name", "content", "error", "words"),
    [
        ("words.tns", b"one two three four\n", BadCells, "cannot be read as a FROSTT tensor"),
        ("ragged.tns", b"1 1 1 1\n1 1 1\n", BadCells, "cannot be read as a FROSTT tensor"),
        ("binary.tns", b"\xff\xfe\x00\x01", BadCells, "cannot be read as a FROSTT tensor"),
        ("narrow.tns", b"1 1 3\n2 2 1\n", BadCells, "three indices and a value"),
        ("empty.tns", b"", BadCells, "three indices and a value"),
        ("comments.tns", b"# nothing\n# here\n", BadCells, "three indices and a value"),
        ("empty.tns.gz", b"", BadCells, "three indices and a value"),
        ("nan.tns", b"1 1 1 nan\n", BadCells, "a count is not finite"),
        ("half.tns", b"1 1 1 0.5\n", BadCells, "a count is fractional"),
        ("minus.tns", b"1 1 1 -2\n", BadCells, "a count is negative"),
        ("zeros.tns", b"1 1 1 0\n", EmptyTensor, "Every count is zero"),
        ("far.tns", b"1 1 3000000000 1\n", BadCells, "a mode is longer than"),
    ],
)
def test_a_bad_frostt_file_is_refused_in_words(tmp_path, name, content, error, words):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(error, match=words):
        CountTensor.from_tns(tmp_path / name)


def test_a_truncated_or_damaged_packed_file_is_refused_by_name(tmp_path):
    rng = np.random.default_rng(0)
    lines = "".join(f"{a} {b} {c} 1\n" for a, b, c in rng.integers(1, 90, size=(300, 3)))
    whole = gzip.compress(lines.encode())
    path = tmp_path / "part.tns.gz"
    for length in (1, 5, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(BadCells, match=r"part\.tns\.gz"):
            CountTensor.from_tns(path)
    for at in range(10, len(whole), 37):
        damaged = bytearray(whole)
        damaged[at] ^= 0x55
        path.write_bytes(bytes(damaged))
        with pytest.raises(BadCells, match=r"part\.tns\.gz"):
            CountTensor.from_tns(path)


def test_a_missing_file_or_a_folder_is_no_file(tmp_path):
    for path in (tmp_path / "none.tns", tmp_path):
        with pytest.raises(NoSuchFile, match=str(path)):
            CountTensor.from_tns(path)


# ── from events: each window rule by hand ─────────────────────────────────────────────────────

NOON = datetime(2020, 3, 1, 12)


def events(*rows):
    """Rows of (patient, visit, hours after noon, mode's first letter, code)."""
    patient, window, hours, mode, code = zip(*rows, strict=True)
    names = {"m": "medication", "d": "diagnosis", "l": "lab"}
    return {
        "patient": list(patient),
        "window": pa.array(window, pa.int64()),
        "time": pa.array(
            [None if h is None else NOON + timedelta(hours=h) for h in hours], pa.timestamp("us")
        ),
        "mode": [names[letter] for letter in mode],
        "code": list(code),
    }


DAY = events(
    (0, 7, 0, "m", "aspirin"),
    (0, 7, 2, "d", "infarct"),
    (0, 7, 2, "d", "infarct"),  # written twice
    (0, 8, 5, "d", "infarct"),
    (0, 8, 13, "m", "aspirin"),  # 1 a.m. of the next day
    (2, 7, 1, "m", "insulin"),
    (2, 7, 1, "d", "diabetes"),
)


@pytest.mark.parametrize(
    ("window", "aspirin"),
    [
        ("visit", 2),  # both visits hold both
        ("person", 1),
        ("same-day", 1),  # the second aspirin falls on a day without the infarct
        ("every-6h", 1),  # 12-18 holds aspirin and infarct, 0-6 only aspirin
        ("2h", 2),  # noon with 2 p.m. written twice; 1 a.m. is 8 h from 5 p.m.
        ("5h", 3),  # and noon with 5 p.m.
        ("1d", 6),  # two times three events
        ("30m", 0),
    ],
)
def test_each_window_rule_counts_as_by_hand(window, aspirin):
    tensor = CountTensor.from_events(DAY, rule=CountingRule(window=window))
    assert tensor.axes[0].codes == ("aspirin", "insulin")
    assert tensor.axes[1].codes == ("diabetes", "infarct")
    cells = [(2, 1, 0, 1)] + ([(0, 0, 1, aspirin)] if aspirin else [])
    assert np.array_equal(tensor.to_tensorly(), dense(*cells, shape=(3, 2, 2)))
    assert_sound(tensor)


def test_the_cap_of_a_rule_bounds_every_cell():
    tensor = CountTensor.from_events(DAY, rule=CountingRule(window="1d", cap=4))
    assert tensor.to_tensorly()[0, 0, 1] == 4


def test_three_modes_count_what_meets_in_one_window():
    table = events(
        (0, 1, 0, "m", "a"),
        (0, 1, 0, "m", "b"),
        (0, 1, 0, "d", "x"),
        (0, 1, 0, "l", "high"),
        (0, 2, 0, "m", "a"),
        (0, 2, 0, "d", "x"),  # no lab in this visit
    )
    tensor = CountTensor.from_events(
        table, rule=CountingRule(("medication", "diagnosis", "lab"), "visit")
    )
    assert np.array_equal(
        tensor.to_tensorly(), dense((0, 0, 0, 0, 1), (0, 1, 0, 0, 1), shape=(1, 2, 1, 1))
    )


def test_more_than_255_equal_cells_are_counted():
    table = events(*[(0, v, v, "m", "a") for v in range(300)], (0, 0, 0, "d", "x"))
    table["window"] = pa.array([*range(300), 0])
    rows = events(*[(0, v, v, mode, "a") for v in range(300) for mode in "md"])
    assert CountTensor.from_events(table).cells.values.tolist() == [1]
    assert CountTensor.from_events(rows).cells.values.tolist() == [300]


def test_a_table_remembers_its_rule_in_a_tensor(tmp_path):
    from tripheno.records.events import check_events, read_events

    write_events(check_events(DAY), tmp_path / "events.parquet", CountingRule(window="5h", cap=2))
    tensor = CountTensor.from_events(read_events(tmp_path / "events.parquet"))
    assert tensor.to_tensorly()[0, 0, 1] == 2


def test_events_on_given_axes_leave_out_codes_the_axes_lack():
    axes = (Axis("medication", 3, ("zinc", "insulin", "iron")), Axis("diagnosis", 1, ("diabetes",)))
    tensor = CountTensor.from_events(DAY, rule=CountingRule(), axes=axes)
    assert np.array_equal(tensor.to_tensorly(), dense((2, 1, 0, 1), shape=(3, 3, 1)))


def test_events_without_a_window_are_counted_in_the_refusal():
    table = events((0, None, 0, "m", "a"), (0, 1, 0, "d", "x"), (0, None, 0, "l", "high"))
    with pytest.raises(BadEvents, match="1 of 2 events have no window") as caught:
        CountTensor.from_events(table, rule=CountingRule())
    assert "'visit' needs it" in str(caught.value)


@pytest.mark.parametrize("window", ["same-day", "every-6h", "3h"])
def test_events_without_a_time_are_counted_in_the_refusal(window):
    table = events((0, 1, None, "m", "a"), (0, 1, None, "d", "x"), (0, 1, 0, "d", "y"))
    with pytest.raises(BadEvents, match="2 of 3 events have no time") as caught:
        CountTensor.from_events(table, rule=CountingRule(window=window))
    assert f"'{window}' needs it" in str(caught.value)


def test_gaps_in_a_column_the_rule_does_not_need_do_no_harm():
    table = events((0, None, None, "m", "a"), (0, None, None, "d", "x"))
    assert CountTensor.from_events(table, rule=CountingRule(window="person")).nonzeros == 1


def test_codes_that_never_meet_give_no_tensor():
    table = events((0, 1, 0, "m", "a"), (0, 2, 0, "d", "x"), (1, 1, 0, "d", "x"))
    with pytest.raises(EmptyTensor, match="medication and diagnosis in one window") as caught:
        CountTensor.from_events(table, rule=CountingRule())
    assert "wider --window" in str(caught.value)


def test_a_mode_without_events_is_named():
    with pytest.raises(EmptyTensor, match="No events of mode lab"):
        CountTensor.from_events(DAY, rule=CountingRule(("medication", "lab")))


def test_patient_numbers_that_are_no_row_numbers_are_refused():
    table = events((10**15, 1, 0, "m", "a"), (10**15, 1, 0, "d", "x"))
    with pytest.raises(BadEvents, match="number the patients 0, 1, 2"):
        CountTensor.from_events(table, rule=CountingRule())


@pytest.mark.parametrize("window", ["999999999999d", "every-999999999999d"])
def test_a_window_wider_than_all_time_is_refused(window):
    with pytest.raises(SettingsError, match="too wide"):
        CountingRule(window=window)


# ── ways on ───────────────────────────────────────────────────────────────────────────────────


def coded():
    axes = (
        Axis("med", 2, ("a", "c"), {"a": "Aspirin"}),
        Axis("dx", 3, ("x", "y", "z")),
    )
    return CountTensor.from_cells(INDICES, COUNTS, shape=(3, 2, 3), axes=axes)


def test_on_other_axes_each_count_follows_its_code():
    axes = (Axis("med", 3, ("c", "b", "a")), Axis("dx", 4, ("z", "y", "x", "w")))
    moved = coded().on_axes(axes)
    expected = dense((0, 2, 2, 1), (0, 0, 0, 2), (2, 0, 2, 3), shape=(3, 3, 4))
    assert np.array_equal(moved.to_tensorly(), expected)
    assert moved.axes == axes
    assert_sound(moved)


def test_codes_the_new_axes_lack_are_left_out_and_patients_stay():
    moved = coded().on_axes((Axis("med", 1, ("a",)), Axis("dx", 1, ("x",))))
    assert np.array_equal(moved.to_tensorly(), dense((0, 0, 0, 1), shape=(3, 1, 1)))
    assert_sound(moved)


def test_a_tensor_with_no_code_on_the_new_axes_is_empty_but_sound():
    moved = coded().on_axes((Axis("med", 1, ("q",)), Axis("dx", 1, ("q",))))
    assert moved.nonzeros == 0
    assert moved.shape == (3, 1, 1)
    assert moved.squared_norm == 0.0
    assert_sound(moved)


def test_equal_axes_change_only_the_labels():
    tensor = coded()
    named = tuple(Axis(a.mode, a.size, a.codes, {"a": "Acetylsalicylic acid"}) for a in tensor.axes)
    moved = tensor.on_axes(named)
    assert moved.cells is tensor.cells
    assert moved.axes[0].name(0) == "Acetylsalicylic acid"


def test_an_axis_without_codes_grows_and_does_not_shrink():
    tensor = CountTensor.from_cells(INDICES, COUNTS, modes=("med", "dx"))
    grown = tensor.on_axes((Axis("med", 5), Axis("dx", 3)))
    assert grown.shape == (3, 5, 3)
    assert grown.squared_norm == tensor.squared_norm
    with pytest.raises(BadShape, match="longer than the new one"):
        tensor.on_axes((Axis("med", 1), Axis("dx", 3)))


def test_axes_of_other_modes_are_refused():
    with pytest.raises(BadShape, match="modes"):
        coded().on_axes((Axis("dx", 3, ("x", "y", "z")), Axis("med", 2, ("a", "c"))))


@given(tensor=count_tensors(), seed=st.integers(0, 1000))
@settings(max_examples=60, deadline=None)
def test_chosen_patients_come_in_the_order_given(tensor, seed):
    rng = np.random.default_rng(seed)
    rows = rng.integers(0, tensor.patients, size=rng.integers(0, 10))
    chosen = tensor.select_patients(rows)
    assert np.array_equal(chosen.to_tensorly(), tensor.to_tensorly()[rows])
    assert_sound(chosen)
    mask = rng.random(tensor.patients) < 0.5
    assert np.array_equal(tensor.select_patients(mask).to_tensorly(), tensor.to_tensorly()[mask])


@given(tensor=count_tensors())
@settings(max_examples=60, deadline=None)
def test_without_the_unused_nothing_is_empty_and_nothing_is_lost(tensor):
    dropped = tensor.drop_unused()
    whole, small = tensor.to_tensorly(), dropped.to_tensorly()
    assert_sound(dropped)
    for mode in range(whole.ndim):
        others = tuple(n for n in range(whole.ndim) if n != mode)
        whole = whole.compress(whole.sum(axis=others) > 0, axis=mode)
        assert (small.sum(axis=others) > 0).all()
    assert np.array_equal(small, whole)


def test_codes_that_stay_keep_their_names():
    axes = (Axis("med", 3, ("a", "b", "c"), {"c": "Captopril"}), Axis("dx", 1, ("x",)))
    tensor = CountTensor.from_cells([[1, 2, 0]], [4], shape=(3, 3, 1), axes=axes).drop_unused()
    assert tensor.axes[0].codes == ("c",)
    assert tensor.axes[0].names() == ["Captopril"]
    assert tensor.shape == (1, 1, 1)


@given(tensor=count_tensors(), cut=st.integers(0, 8))
@settings(max_examples=60, deadline=None)
def test_a_tensor_cut_in_two_and_pooled_is_the_same_tensor(tensor, cut):
    rows = np.arange(tensor.patients)
    parts = [tensor.select_patients(rows[:cut]), tensor.select_patients(rows[cut:])]
    whole = pooled(parts)
    assert np.array_equal(whole.to_tensorly(), tensor.to_tensorly())
    assert_sound(whole)


def test_hospitals_on_different_axes_are_not_pooled():
    other = coded().on_axes((Axis("med", 2, ("c", "a")), Axis("dx", 3, ("x", "y", "z"))))
    with pytest.raises(BadShape, match="align them first"):
        pooled([coded(), other])


def test_coordinates_lead_back_to_the_same_tensor():
    tensor = coded()
    indices, values = tensor.coordinates()
    assert indices.tolist() == INDICES
    assert values.tolist() == COUNTS
    assert tensor.patient_of_cell.tolist() == [0, 0, 2]
