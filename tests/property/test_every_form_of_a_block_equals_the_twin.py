"""A patient's block may be kept in three forms: all give what the dense twin gives."""

from __future__ import annotations

import logging

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from kit.strategies import MODES, count_tensors, event_tables, factors
from tripheno.records.events import CountingRule, check_events
from tripheno.tensor import CountTensor, block_building, pooled, reference, threads
from tripheno.tensor.blocks import PatientBlocks
from tripheno.tensor.cells import Cells
from tripheno.tensor.factors import gram_of_others

RANKS = (1, 3, 10, 17, 50)
FORMS = ("dense", "windows", "entries")
RULES = ("visit", "person", "same-day", "every-6h")
every_rank = pytest.mark.parametrize("rank", RANKS)
every_form = pytest.mark.parametrize("form", FORMS)
quick = settings(max_examples=20, deadline=None)

PRICES = {
    "dense": "CYCLES_OF_A_CELL",
    "windows": "CYCLES_OF_AN_EVENT",
    "entries": "CYCLES_OF_AN_ENTRY",
}


def kept_as(form, make):
    """What ``make`` gives where the other forms cost too much."""
    with pytest.MonkeyPatch.context() as patch:
        for name, price in PRICES.items():
            patch.setattr(block_building, price, 0 if name == form else 1000)
        if form == "windows":  # a cap's corrections are entries
            patch.setattr(block_building, "CYCLES_OF_AN_ENTRY", 1)
            patch.setattr(block_building, "CYCLES_OF_AN_EVENT", -1000)
        return make()


def form_of(tensor):
    body = tensor.cells.body
    if body.window_starts[-1]:
        return "windows"
    return "dense" if body.dense_starts[-1] else "entries"


def assert_products_as_the_twin(tensor, features, patients, share=1e-12, dtype=np.float64):
    """Every product, to a share of the largest number that was added up."""
    dense, cells = tensor.to_tensorly(), tensor.cells
    every, sizes = [patients, *features], [np.abs(patients), *(np.abs(f) for f in features)]
    given_factors = [factor.astype(dtype) for factor in features]
    products = [cells.patient_product(given_factors)]
    products += [cells.feature_product(given_factors, patients, mode) for mode in range(2)]
    for mode, product in enumerate(products):
        scale = reference.mttkrp(dense, sizes, mode).max()
        assert np.abs(product - reference.mttkrp(dense, every, mode)).max() <= share * scale


def assert_as_the_twin(tensor, features, patients):
    """Every product and error, to 1e-12 of the largest number that was added up."""
    assert_products_as_the_twin(tensor, features, patients)
    dense, cells = tensor.to_tensorly(), tensor.cells
    every, sizes = [patients, *features], [np.abs(patients), *(np.abs(f) for f in features)]
    squared, inner = cells.at_cells(features, patients)
    ceiling = reference.model(sizes) + dense
    plain, _ = reference.squared_errors(dense, every)
    assert abs(squared - plain) <= 1e-12 * (ceiling[dense > 0] ** 2).sum()
    assert abs(inner - (reference.model(every) * dense).sum()) <= 1e-12 * (ceiling * dense).sum()


def assert_updates_as_the_twin(tensor, features, rank, *, nonnegative):
    gram = gram_of_others(features)
    gram = gram + max(np.trace(gram) / rank, 1.0) * np.eye(rank)
    patients, product = tensor.cells.update_patients(features, gram, nonnegative=nonnegative)
    dense = tensor.to_tensorly()
    rhs = reference.mttkrp(dense, [patients, *features], 0)
    plain = np.linalg.solve(gram, rhs.T).T
    if nonnegative:
        plain = reference.nonnegative_rows(rhs, gram)
    longest = np.linalg.norm(rhs, axis=1, keepdims=True) / np.linalg.eigvalsh(gram)[0]
    assert np.all(np.abs(patients - plain) <= 1e-10 * longest)
    sizes = [np.abs(patients), *(np.abs(f) for f in features)]
    scale = reference.mttkrp(dense, sizes, 1).max()
    expected = reference.mttkrp(dense, [patients, *features], 1)
    assert np.abs(product - expected).max() <= 1e-12 * scale


@every_rank
@every_form
@given(data=st.data())
@quick
def test_windows_of_events_in_every_form(data, form, rank):
    rule = CountingRule(
        MODES[:2], *data.draw(st.sampled_from([(r, c) for r in RULES for c in (None, 1, 2)]))
    )
    events = data.draw(event_tables())
    expected = dict(reference.count(events, rule))
    assume(expected)
    tensor = kept_as(form, lambda: CountTensor.from_events(events, rule=rule))
    assert form_of(tensor) == form
    assert tensor.squared_norm == sum(count**2 for count in expected.values())
    assert tensor.nonzeros == len(expected)
    patients, *features = data.draw(factors(tensor.shape, rank))
    assert_as_the_twin(tensor, features, patients)
    assert_updates_as_the_twin(tensor, features, rank, nonnegative=data.draw(st.booleans()))


@every_rank
@pytest.mark.parametrize("form", ["dense", "entries"])
@given(data=st.data())
@quick
def test_cells_in_every_form(data, form, rank):
    tensor = kept_as(form, lambda: data.draw(count_tensors(feature_modes=(2,))))
    assert isinstance(tensor.cells, PatientBlocks)
    patients, *features = data.draw(factors(tensor.shape, rank))
    assert_as_the_twin(tensor, features, patients)
    assert_updates_as_the_twin(tensor, features, rank, nonnegative=data.draw(st.booleans()))


@every_rank
@every_form
@given(data=st.data())
@settings(
    max_examples=10, deadline=None, suppress_health_check=[HealthCheck.filter_too_much]
)  # few tables of events have nothing in common
def test_single_precision_agrees_to_four_digits_and_more(data, form, rank):
    rule = CountingRule(MODES[:2], *data.draw(st.sampled_from([("visit", None), ("visit", 1)])))
    events = data.draw(event_tables())
    assume(reference.count(events, rule))
    tensor = kept_as(form, lambda: CountTensor.from_events(events, rule=rule))
    patients, *features = data.draw(factors(tensor.shape, rank))
    largest = max(1.0, *(np.abs(f).max(initial=0.0) for f in (patients, *features)))
    patients, *features = (f / largest for f in (patients, *features))
    assert_products_as_the_twin(tensor, features, patients, 1e-5, np.float32)
    gram = gram_of_others(features)
    gram = gram + max(np.trace(gram) / rank, 1.0) * np.eye(rank)
    exact = tensor.cells.update_patients(features, gram, nonnegative=True)
    single = tensor.cells.update_patients(
        [factor.astype(np.float32) for factor in features], gram, nonnegative=True
    )
    for one, other in zip(exact, single, strict=True):
        assert np.abs(one - other).max(initial=0.0) <= 1e-4 * np.abs(one).max(initial=1e-30)


@every_form
def test_two_hundred_components_are_no_special_case(visits, form):
    rule = CountingRule(MODES[:2], "visit", 2)
    tensor = kept_as(form, lambda: CountTensor.from_events(visits, rule=rule)).select_patients(
        np.arange(40)
    )
    rng = np.random.default_rng(0)
    patients, *features = (rng.normal(size=(size, 200)) for size in tensor.shape)
    assert_products_as_the_twin(tensor, features, patients)
    assert_products_as_the_twin(tensor, features, patients, 1e-4, np.float32)
    assert_updates_as_the_twin(tensor, features, 200, nonnegative=False)


@given(tensor=count_tensors(feature_modes=(2,)), data=st.data())
@quick
def test_plain_cells_of_two_modes_still_answer(tensor, data):
    plain = Cells(
        tensor.cells.starts, tensor.cells.indices, tensor.cells.values, tensor.cells.sizes
    )
    patients, *features = data.draw(factors(tensor.shape, 3))
    for mode in range(2):
        fast = tensor.cells.feature_product(features, patients, mode)
        slow = plain.feature_product(features, patients, mode)
        assert np.allclose(fast, slow, rtol=1e-9, atol=1e-9 * np.abs(slow).max(initial=0.0))
    assert plain.squared_norm == tensor.cells.squared_norm


@pytest.fixture(scope="module")
def visits():
    """Events of 900 patients in a few visits each."""
    rng = np.random.default_rng(3)
    rows = 60_000
    mode = rng.integers(0, 2, rows)
    return {
        "patient": rng.integers(0, 900, rows),
        "window": rng.integers(0, 4, rows),
        "time": pa.nulls(rows, pa.timestamp("us")),
        "mode": [MODES[m] for m in mode],
        "code": [f"c{c:02}" for c in rng.integers(0, 40, rows)],
    }


@every_form
@pytest.mark.parametrize("cap", [None, 2])
def test_selected_patients_keep_their_form(visits, form, cap):
    rule = CountingRule(MODES[:2], "visit", cap)
    tensor = kept_as(form, lambda: CountTensor.from_events(visits, rule=rule))
    rows = np.array([5, 5, 0, 899, 17, 3])
    some = tensor.select_patients(rows)
    assert form_of(some) == form
    assert np.array_equal(some.to_tensorly(), tensor.to_tensorly()[rows])
    assert some.squared_norm == (some.to_tensorly() ** 2).sum()
    rng = np.random.default_rng(0)
    patients, *features = (rng.normal(size=(size, 3)) for size in some.shape)
    assert_as_the_twin(some, features, patients)
    nobody = tensor.select_patients(np.zeros(0, dtype=int))
    assert (nobody.nonzeros, nobody.patients, nobody.squared_norm) == (0, 0, 0.0)


@pytest.mark.parametrize("cap", [None, 2])
@pytest.mark.parametrize("forms", [FORMS, FORMS[::-1], ("windows",) * 3, ("dense",) * 3])
def test_pooled_blocks_are_the_blocks_of_the_pooled(visits, forms, cap):
    rule = CountingRule(MODES[:2], "visit", cap)
    table = check_events(visits)
    axes = CountTensor.from_events(table, rule=rule).axes
    share = np.asarray(visits["patient"]) % 3
    tensors = [
        kept_as(
            form,
            lambda k=k: CountTensor.from_events(table.filter(share == k), rule=rule, axes=axes),
        )
        for k, form in enumerate(forms)
    ]
    together = pooled(tensors)
    expected = np.concatenate([tensor.to_tensorly() for tensor in tensors])
    assert np.array_equal(together.to_tensorly(), expected)
    assert together.squared_norm == (expected**2).sum()
    rng = np.random.default_rng(0)
    patients, *features = (rng.normal(size=(size, 3)) for size in together.shape)
    assert_as_the_twin(together, features, patients)


@every_form
@pytest.mark.parametrize("cap", [None, 2])
def test_one_two_and_four_threads_give_the_same_bits(visits, form, cap, monkeypatch):
    rule = CountingRule(MODES[:2], "visit", cap)
    rng = np.random.default_rng(0)
    answers = {}
    for workers in (1, 2, 4):
        with threads.limited_to(workers):
            monkeypatch.setattr(threads, "CELLS_PER_CHUNK", 5_000)
            tensor = kept_as(form, lambda: CountTensor.from_events(visits, rule=rule))
            assert form_of(tensor) == form
            assert len(tensor.cells._chunks) > 1
            rng = np.random.default_rng(0)
            patients, *features = (rng.random((size, 10)) for size in tensor.shape)
            gram, cells = gram_of_others(features), tensor.cells
            answers[workers] = [
                cells.indices,
                cells.values,
                cells.patient_product(features),
                *(cells.feature_product(features, patients, mode) for mode in range(2)),
                np.array(cells.at_cells(features, patients)),
                *cells.update_patients(features, gram, nonnegative=True),
                *cells.update_patients(features, gram, nonnegative=False),
            ]
    for other in (2, 4):
        for one, many in zip(answers[1], answers[other], strict=True):
            assert one.tobytes() == many.tobytes()


@pytest.mark.parametrize("cap", [None, 1, 255, 256])
def test_more_windows_than_a_byte_counts_overflow_nothing(cap):
    times = 300
    table = {
        "patient": [0] * (2 * times),
        "window": list(range(times)) * 2,
        "time": pa.nulls(2 * times, pa.timestamp("us")),
        "mode": [MODES[0]] * times + [MODES[1]] * times,
        "code": ["a"] * (2 * times),
    }
    rule = CountingRule(MODES[:2], "visit", cap)
    for form in FORMS:
        tensor = kept_as(form, lambda: CountTensor.from_events(table, rule=rule))
        expected = min(times, cap or times)
        assert tensor.cells.values.tolist() == [expected]
        assert tensor.cells.feature_product([np.ones((1, 1))] * 2, np.ones((1, 1)), 1) == expected
        assert tensor.squared_norm == expected**2


def test_what_was_chosen_is_logged_without_codes(visits, caplog):
    with caplog.at_level(logging.INFO, logger="tripheno.tensor"):
        CountTensor.from_events(visits, rule=CountingRule(MODES[:2], "visit"))
    (line,) = [record.getMessage() for record in caplog.records]
    assert "900 patients" in line
    assert "as dense blocks" in line
    assert "c01" not in line
