"""A weight per patient is the plain twin on counts and rows that are √w times as long."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kit.strategies import MODES, count_tensors, event_tables, factors
from tripheno.errors import BadShape, SettingsError
from tripheno.records.events import CountingRule
from tripheno.tensor import CountTensor, block_building, pooled, reference
from tripheno.tensor.cells import Cells
from tripheno.tensor.factors import gram_of_others

quick = settings(max_examples=25, deadline=None)
PRICES = {  # of a dense cell, an entry, an event
    "dense": (0, 1000, 1000),
    "entries": (1000, 0, 1000),
    "windows": (1000, 1, -1000),
}


@st.composite
def weights(draw, patients):
    """Some zero, some as a bootstrap draws them, some far apart."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    drawn = rng.exponential(size=patients) * 10.0 ** rng.integers(-2, 3, size=patients)
    drawn[rng.random(patients) < draw(st.sampled_from([0.0, 0.5]))] = 0.0
    return drawn


@st.composite
def tensors(draw, form):
    """A tensor of two feature modes kept in one form, or of three kept as plain cells."""
    if form == "cells":
        return draw(count_tensors(feature_modes=(3,)))
    events = draw(event_tables().filter(lambda e: reference.count(e, CountingRule(MODES[:2]))))
    with pytest.MonkeyPatch.context() as patch:
        for name, price in zip(("A_CELL", "AN_ENTRY", "AN_EVENT"), PRICES[form], strict=True):
            patch.setattr(block_building, f"CYCLES_OF_{name}", price)
        return CountTensor.from_events(events, rule=CountingRule(MODES[:2]))


@pytest.mark.parametrize("rank", [1, 3, 10])
@pytest.mark.parametrize("form", ["cells", *PRICES])
@given(data=st.data())
@quick
def test_every_sum_over_patients_takes_their_weights(data, form, rank):
    plain = data.draw(tensors(form))
    drawn = data.draw(weights(plain.patients))
    cells = plain.with_weights(drawn).cells
    patients, *features = data.draw(factors(plain.shape, rank))
    dense = reference.weighted(plain.to_tensorly(), np.sqrt(drawn))
    longer = [reference.weighted(patients, np.sqrt(drawn)), *features]
    sizes = [np.abs(factor) for factor in longer]
    for mode in range(len(features)):
        product = cells.feature_product(features, patients, mode)
        scale = reference.mttkrp(dense, sizes, mode + 1).max()
        twin = reference.mttkrp(dense, longer, mode + 1)
        assert np.abs(product - twin).max() <= 1e-12 * scale
    squared, inner = cells.at_cells(features, patients)
    ceiling, model = reference.model(sizes) + dense, reference.model(longer)
    error, _ = reference.squared_errors(dense, longer)
    assert abs(squared - error) <= 1e-12 * (ceiling[dense > 0] ** 2).sum()
    assert abs(inner - (model * dense).sum()) <= 1e-12 * (ceiling * dense).sum()
    assert np.isclose(cells.squared_norm, (dense**2).sum(), rtol=1e-12)
    gram = cells.patient_gram(patients)
    assert np.abs(gram - longer[0].T @ longer[0]).max() <= 1e-12 * (sizes[0].T @ sizes[0]).max()
    assert np.array_equal(gram, gram.T)


@pytest.mark.parametrize("nonnegative", [True, False])
@pytest.mark.parametrize("form", ["cells", *PRICES])
@given(data=st.data())
@quick
def test_a_patients_own_row_does_not_depend_on_the_weight(data, form, nonnegative):
    plain = data.draw(tensors(form))
    drawn = data.draw(weights(plain.patients))
    _, *features = data.draw(factors(plain.shape, 10))
    gram = gram_of_others(features)
    gram = gram + max(np.trace(gram) / 10, 1.0) * np.eye(10)
    expected, _ = plain.cells.update_patients(features, gram, nonnegative=nonnegative)
    weighted = plain.with_weights(drawn).cells
    rows, product = weighted.update_patients(features, gram, nonnegative=nonnegative)
    assert np.array_equal(rows, expected)
    sizes = [reference.weighted(np.abs(rows), drawn), *(np.abs(factor) for factor in features)]
    scale = reference.mttkrp(plain.to_tensorly(), sizes, 1).max()
    twin = reference.mttkrp(plain.to_tensorly(), [reference.weighted(rows, drawn), *features], 1)
    assert np.abs(product - twin).max() <= 1e-12 * scale


@given(tensor=count_tensors(), data=st.data())
@quick
def test_weights_go_with_their_patients(tensor, data):
    drawn = data.draw(weights(tensor.patients))
    weighted = tensor.with_weights(drawn)
    rows = np.array(data.draw(st.lists(st.integers(0, tensor.patients - 1), max_size=5)), dtype=int)
    assert np.array_equal(weighted.select_patients(rows).cells.each_weight, drawn[rows])
    both = pooled([tensor, weighted])
    assert np.array_equal(both.cells.each_weight, [*np.ones(tensor.patients), *drawn])
    busy = np.diff(tensor.cells.starts) > 0
    assert np.array_equal(weighted.drop_unused().cells.each_weight, drawn[busy])
    assert weighted.on_axes(tensor.axes).squared_norm == weighted.squared_norm
    assert pooled([tensor, tensor]).cells.weights is None
    assert weighted.with_weights(None).squared_norm == tensor.squared_norm


def test_weights_survive_new_axes_and_the_step_from_cells_to_blocks():
    cells = Cells(np.array([0, 1, 2]), np.array([[0, 0], [1, 1]]), np.array([2, 3]), (2, 2))
    tensor = CountTensor.from_cells([[0, 0, 0], [1, 1, 1]], [2, 3])
    assert CountTensor(tensor.axes, cells.with_weights([1.0, 0.5])).squared_norm == 4 + 4.5
    longer = CountTensor.from_cells([[0, 2, 1]], [1]).axes
    assert tensor.with_weights([1.0, 0.5]).on_axes(longer).squared_norm == 4 + 4.5


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ([1.0], BadShape),
        ([[1.0], [1.0]], BadShape),
        ([1.0, -0.5], SettingsError),
        ([1.0, float("nan")], SettingsError),
        ([1.0, float("inf")], SettingsError),
    ],
    ids=["too few", "two-dimensional", "negative", "not a number", "infinite"],
)
def test_weights_that_cannot_be_are_refused(wrong, error):
    with pytest.raises(error):
        CountTensor.from_cells([[0, 0, 0], [1, 1, 1]], [2, 3]).with_weights(wrong)
