"""Cells from coordinates in any order: one number a cell, or column by column, the same cells."""

from __future__ import annotations

import numpy as np
import pytest

from tripheno.tensor.cells import _sorted_columns, sorted_cells


def some_cells(seed: int, shape: tuple[int, ...], count: int, most: int):
    rng = np.random.default_rng(seed)
    columns = np.stack([rng.integers(0, size, count) for size in shape], axis=1).astype(np.int32)
    return columns[:, 0], columns[:, 1:], rng.integers(0, most + 1, count)


def same(one, other) -> bool:
    return (
        np.array_equal(one.starts, other.starts)
        and np.array_equal(one.indices, other.indices)
        and np.array_equal(one.values, other.values)
        and one.sizes == other.sizes
    )


@pytest.mark.parametrize("cap", [None, 1, 3])
@pytest.mark.parametrize(
    ("shape", "count", "most"),
    [
        ((40, 7, 5), 900, 4),  # many equal cells, zeros among them
        ((1, 1, 1), 5, 2),
        ((3, 1, 9), 1, 1),
        ((1000, 64, 33), 5000, 1),
        ((50, 4, 3, 6), 700, 9),
        ((8, 2), 30, 2**20),
    ],
)
def test_both_ways_give_the_same_cells(shape, count, most, cap):
    for seed in range(5):
        given = some_cells(seed, shape, count, most)
        assert same(sorted_cells(*given, shape, cap), _sorted_columns(*given, shape, cap))


def test_what_one_number_cannot_hold_is_still_counted_rightly():
    """Long axes and a large count: 20 + 20 + 20 bits and 31 more."""
    shape = (2**20, 2**20, 2**20)
    patient = np.array([2**20 - 1, 5, 5, 2**20 - 1])
    indices = np.array([[2**20 - 1, 0], [3, 4], [3, 4], [7, 2**20 - 1]])
    values = np.array([2**30, 2, 3, 1])
    found = sorted_cells(patient, indices, values, shape)
    assert found.indices.tolist() == [[3, 4], [7, 2**20 - 1], [2**20 - 1, 0]]
    assert found.values.tolist() == [5, 1, 2**30]
    assert (found.starts[[5, 6, -2, -1]] == [0, 1, 1, 3]).all()


def test_no_cell_is_no_patient():
    empty = np.zeros((0, 2), dtype=np.int32)
    found = sorted_cells(np.zeros(0, np.int32), empty, np.zeros(0, np.int64), (3, 2, 2))
    assert found.starts.tolist() == [0, 0, 0, 0]
    assert len(found.values) == 0
