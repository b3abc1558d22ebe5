"""Small loops against what they say in plain NumPy, compiled."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from numba import njit

from tripheno import compiled
from tripheno.errors import BadShape, SettingsError
from tripheno.tensor import block_kernels, blocks
from tripheno.tensor.block_building_kernels import copy_runs, forget, measure_windows, own_codes
from tripheno.tensor.count_tensor import CountTensor
from tripheno.tensor.counting_kernels import (
    add_equal_cells,
    scatter_by_digit,
    starts_of_digits,
)
from tripheno.tensor.error_kernels import LANES as LANES_OF_ERRORS
from tripheno.tensor.error_kernels import errors_at_cells
from tripheno.tensor.event_kernels import row_of_events
from tripheno.tensor.nonnegative_kernels import nonnegative_rows
from tripheno.tensor.poisson_kernels import newton_rows
from tripheno.tensor.shard import FAILED, Shard
from tripheno.tensor.shard_messages import packed, unpacked
from tripheno.tensor.strips import add_strip, load_strip, multiply_add, store_strip
from tripheno.tensor.vectors import BYTES, fma, lane_sum, load, spread
from tripheno.tensor.weights import joined_weights

RNG = np.random.default_rng(0)


def test_a_radix_sort_by_digits_sorts():
    keys = RNG.integers(0, 2**16, 500)
    for place in (0, 8):
        cursors, out = starts_of_digits(keys, place, 8), np.empty_like(keys)
        scatter_by_digit(keys, place, 8, cursors, out)
        keys = out
    assert (np.diff(keys) >= 0).all()


def test_equal_cells_are_added_up():
    bits, shift = np.array([4, 4]), 8
    cells = [(1, 2, 5), (1, 2, 7), (3, 0, 1)]
    keys = np.array([((a << 4 | b) << shift) + n for a, b, n in cells])
    indices, sums = np.empty((3, 2), np.int64), np.empty(3, np.int64)
    add_equal_cells(keys, bits, shift, indices, sums)
    assert sums.tolist() == [12, 0, 1]
    assert indices[[0, 2]].tolist() == [[1, 2], [3, 0]]


def test_a_patient_s_own_codes_are_sorted_found_and_forgotten():
    codes, place = np.array([9, 7, 3, 5]), np.full(10, -1)
    own_codes(codes, 1, 4, place)
    assert codes.tolist() == [9, 3, 5, 7]
    assert [place[code] for code in (3, 5, 7, 9)] == [0, 1, 2, -1]
    forget(codes, 1, 4, place)
    assert (place == -1).all()


def test_runs_of_chosen_patients_are_copied_one_after_the_other():
    source, starts = np.arange(10), np.array([0, 3, 5, 10])
    out = np.empty(8, np.int64)
    copy_runs(source, starts, np.array([2, 0]), np.array([0, 5, 8]), out)
    assert out.tolist() == [5, 6, 7, 8, 9, 0, 1, 2]


def test_windows_without_a_code_of_each_mode_count_for_nothing():
    events = np.array([0, 1, 3, 0, 2])  # rows below 2, columns from 2 on
    windows, patient_windows = np.array([0, 3, 4, 5]), np.array([0, 3])
    out = np.zeros((1, 8), np.int64)
    measure_windows(events, windows, patient_windows, 2, np.array([2, 2]), 0, 0, 1, out)
    assert out[0, :5].tolist() == [2, 1, 1, 2, 1]


def test_rows_meet_the_conditions_of_a_least_squares_minimum_with_no_negative_entry():
    half = RNG.standard_normal((8, 4))
    gram, rhs = half.T @ half + 0.1 * np.eye(4), RNG.standard_normal((50, 4))
    out = np.zeros_like(rhs)
    nonnegative_rows(rhs, gram, 0, 50, out)
    slopes = out @ gram - rhs
    assert (out >= 0).all()
    assert (out > 0).any(axis=1).sum() > 10
    assert slopes.min() > -1e-9
    assert np.abs(slopes * out).max() < 1e-9


def test_a_newton_step_lowers_a_poisson_loss():
    design, counts = RNG.random((40, 3)) + 0.1, RNG.poisson(4.0, 40).astype(float)
    row, sums = np.full((1, 3), 1.0), design.sum(axis=0)[None]
    before, after, out = None, None, np.zeros((1, 3))
    for _ in range(20):
        means = design @ row[0]
        slope = (counts / means) @ design
        curve = (design.T * (counts / means**2)) @ design
        packed_curve = curve[np.tril_indices(3)][None]
        newton_rows(slope[None], packed_curve, sums, row, out)
        losses = [float((design @ a).sum() - counts @ np.log(design @ a)) for a in (row[0], out[0])]
        before, after = losses
        assert after <= before + 1e-9
        row = out.copy()
    assert before - after < 1e-6


def test_strips_and_vectors_do_what_their_words_say():
    @njit
    def combined(a, b, c, out):
        width = (0,)
        strip = multiply_add(
            load_strip(c, 0, width), load_strip(a, 0, width), load_strip(b, 0, width)
        )
        store_strip(add_strip(strip, c, 0), out, 0)
        return lane_sum(fma(load(a, 0), spread(2.0), load(b, 0)))

    lanes = BYTES // 8
    a, b, c = RNG.random((3, lanes))
    out = np.empty(lanes)
    total = combined(a, b, c, out)
    assert out == pytest.approx(a * b + 2 * c)
    assert total == pytest.approx((2 * a + b).sum())
    assert lanes == LANES_OF_ERRORS


def test_events_of_windows_and_errors_at_cells_are_those_of_the_dense_tensor():
    assert block_kernels.row_of_events is row_of_events
    assert blocks.errors_at_cells is errors_at_cells
    columns = {
        "patient": [0, 0, 0, 0, 1, 1],
        "window": [0, 0, 0, 1, 0, 0],
        "mode": ["medication", "medication", "diagnosis", "diagnosis", "medication", "diagnosis"],
        "code": ["a", "b", "x", "y", "b", "y"],
    }
    tensor = CountTensor.from_events(pa.table(columns))
    dense = np.array([[[1.0, 0.0], [1.0, 0.0]], [[0.0, 0.0], [0.0, 1.0]]])
    first, second, patients = RNG.random((3, 2, 3))
    assert tensor.cells.patient_product([first, second]) == pytest.approx(
        np.einsum("ijk,jr,kr->ir", dense, first, second)
    )
    model = np.einsum("ir,jr,kr->ijk", patients, first, second)
    squared, inner = tensor.cells.at_cells([first, second], patients)
    assert squared == pytest.approx(((model - dense)[dense > 0] ** 2).sum())
    assert inner == pytest.approx((model * dense).sum())


def test_weights_of_several_hospitals_follow_each_other_and_must_be_weights():
    cells = np.array([[0, 0, 0], [1, 0, 0]])
    plain = CountTensor.from_cells(cells, [1, 2]).cells
    heavy = plain.with_weights(np.array([2.0, 0.5]))
    assert joined_weights([plain, plain]) is None
    assert joined_weights([plain, heavy]).tolist() == [1.0, 1.0, 2.0, 0.5]
    factor = np.array([[1.0, 2.0], [3.0, 0.0]])
    assert heavy.patient_gram(factor) == pytest.approx(factor.T @ np.diag([2.0, 0.5]) @ factor)
    with pytest.raises(BadShape):
        plain.with_weights(np.ones(3))
    with pytest.raises(SettingsError):
        plain.with_weights(np.array([1.0, -1.0]))


def test_a_shard_names_the_kind_of_its_fault_and_nothing_else():
    assert unpacked(Shard().answer(packed({"call": "pass"}))) is None
    answer = unpacked(Shard().answer(packed({"call": "begin", "key": 1, "nonsense": "secret"})))
    assert answer == {FAILED: "TypeError"}


def test_a_compiler_without_a_place_to_keep_loops_gets_one_of_its_own(monkeypatch):
    from numba import config

    def refused(**_options):
        raise RuntimeError("no locator available")

    monkeypatch.setattr(compiled, "njit", refused)
    monkeypatch.setattr(config, "CACHE_DIR", config.CACHE_DIR)
    compiled.find_a_place()
    assert "tripheno-compiled-" in config.CACHE_DIR
