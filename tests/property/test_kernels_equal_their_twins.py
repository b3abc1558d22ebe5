"""Every kernel, compiled, equals its plain twin in `tripheno.tensor.reference`."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kit.strategies import (
    MODES,
    count_tensors,
    event_tables,
    factors,
    positive_definite,
)
from tripheno.errors import EmptyTensor
from tripheno.records.events import CountingRule
from tripheno.tensor import CountTensor, block_kernels, counting, kernels, reference, threads
from tripheno.tensor.factors import gram_of_others
from tripheno.tensor.relabelling_kernels import first_distinct, guide_to, relabelled_products
from tripheno.tensor.rows import regular, solve_rows

RANKS = (1, 3, 10, 17, 50)
quick = settings(max_examples=25, deadline=None)

every_rank = pytest.mark.parametrize("rank", RANKS)
every_order = pytest.mark.parametrize("feature_modes", [2, 3, 4])
cut_or_whole = pytest.mark.parametrize("cells_per_chunk", [2, 20_000])


def draw_tensor(data, feature_modes, rank):
    """A tensor, its dense twin, feature factors, a patient factor."""
    tensor = data.draw(count_tensors(feature_modes=(feature_modes,)))
    made = data.draw(factors(tensor.shape, rank))
    return tensor, tensor.to_tensorly(), made[1:], made[0]


def assert_equal(fast, plain, scale):
    """Equal to round-off of the largest number that was added up."""
    assert np.shape(fast) == np.shape(plain)
    assert np.all(np.abs(np.asarray(fast) - plain) <= 1e-12 * scale)


def absolute(arrays):
    return [np.abs(array) for array in arrays]


def test_the_kernels_under_test_are_compiled():
    CountTensor.from_cells([[0, 0, 0]], [1]).cells.patient_product([np.ones((1, 1))] * 2)
    CountTensor.from_cells([[0, 0, 0, 0]], [1]).cells.patient_product([np.ones((1, 1))] * 3)
    assert kernels.mttkrp_patients.signatures
    assert block_kernels.patient_rows.signatures


@every_rank
@every_order
@given(data=st.data())
@quick
def test_the_patient_product_equals_its_twin(data, feature_modes, rank):
    tensor, dense, features, patients = draw_tensor(data, feature_modes, rank)
    plain = reference.mttkrp(dense, [patients, *features], 0)
    scale = reference.mttkrp(dense, absolute([patients, *features]), 0).max()
    assert_equal(tensor.cells.patient_product(features), plain, scale)


@every_rank
@every_order
@given(data=st.data())
@quick
def test_the_feature_product_of_every_mode_equals_its_twin(data, feature_modes, rank):
    tensor, dense, features, patients = draw_tensor(data, feature_modes, rank)
    for mode in range(feature_modes):
        plain = reference.mttkrp(dense, [patients, *features], mode + 1)
        scale = reference.mttkrp(dense, absolute([patients, *features]), mode + 1).max()
        assert_equal(tensor.cells.feature_product(features, patients, mode), plain, scale)


@every_rank
@every_order
@given(data=st.data())
@quick
def test_the_model_at_the_cells_equals_its_twin(data, feature_modes, rank):
    tensor, dense, features, patients = draw_tensor(data, feature_modes, rank)
    squared, inner = tensor.cells.at_cells(features, patients)
    plain, _ = reference.squared_errors(dense, [patients, *features])
    ceiling = reference.model(absolute([patients, *features])) + dense
    assert_equal(squared, plain, (ceiling[dense > 0] ** 2).sum())
    model = reference.model([patients, *features])
    assert_equal(inner, (model * dense).sum(), (ceiling * dense).sum())


@every_rank
@every_order
@pytest.mark.parametrize("nonnegative", [True, False])
@given(data=st.data())
@quick
def test_the_patient_update_equals_its_twin(data, feature_modes, rank, nonnegative):
    tensor, dense, features, _ = draw_tensor(data, feature_modes, rank)
    gram = gram_of_others(features)
    gram = gram + max(np.trace(gram) / rank, 1.0) * np.eye(rank)
    guess = data.draw(guesses(tensor.patients, rank))
    patients, product = tensor.cells.update_patients(
        features, gram, nonnegative=nonnegative, guess=guess
    )
    rhs = reference.mttkrp(dense, [np.ones((tensor.patients, rank)), *features], 0)
    plain = plain_rows(rhs, gram, nonnegative)
    assert_rows_equal(patients, plain, rhs, gram)
    scale = reference.mttkrp(dense, absolute([patients, *features]), 1).max()
    assert_equal(product, reference.mttkrp(dense, [patients, *features], 1), scale)


@cut_or_whole
@every_order
@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_cutting_the_patients_into_chunks_changes_round_off_only(
    data, feature_modes, cells_per_chunk
):
    tensor, dense, features, patients = draw_tensor(data, feature_modes, 3)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threads, "CELLS_PER_CHUNK", cells_per_chunk)
        patch.setattr(threads, "CELLS_PER_ROW", 0)
        products = [tensor.cells.patient_product(features)] + [
            tensor.cells.feature_product(features, patients, n) for n in range(feature_modes)
        ]
        squared, _ = tensor.cells.at_cells(features, patients)
    for mode, product in enumerate(products):
        scale = reference.mttkrp(dense, absolute([patients, *features]), mode).max()
        assert_equal(product, reference.mttkrp(dense, [patients, *features], mode), scale)
    ceiling = reference.model(absolute([patients, *features])) + dense
    plain, _ = reference.squared_errors(dense, [patients, *features])
    assert_equal(squared, plain, (ceiling[dense > 0] ** 2).sum())


# ── rows ──────────────────────────────────────────────────────────────────────────────────────


@st.composite
def guesses(draw, rows, rank):
    """None, or anything at all: right, wrong, negative, huge, tiny."""
    if draw(st.booleans()):
        return None
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    return rng.choice([-1.0, 0.0, 1e-300, 1.0, 1e300], size=(rows, rank))


@st.composite
def right_hand_sides(draw, rank):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    rows = rng.normal(loc=draw(st.sampled_from([-1.0, 0.0, 1.0])), size=(6, rank))
    rows *= 10.0 ** rng.integers(-6, 6, size=(6, 1))
    rows[0] = 0.0
    rows[1] = -np.abs(rows[1])
    return rows


def plain_rows(rhs, gram, nonnegative):
    if nonnegative:
        return reference.nonnegative_rows(rhs, gram)
    return np.linalg.solve(gram, rhs.T).T


def assert_rows_equal(solved, plain, rhs, gram):
    """Equal to a billionth of how long a row could be, given its right-hand side."""
    longest = np.linalg.norm(rhs, axis=1, keepdims=True) / np.linalg.eigvalsh(gram)[0]
    assert solved.shape == plain.shape
    assert np.all(np.abs(solved - plain) <= 1e-9 * longest)


@every_rank
@pytest.mark.parametrize("nonnegative", [True, False])
@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_rows_are_solved_as_by_the_twin_whatever_the_guess(data, rank, nonnegative):
    gram = data.draw(positive_definite(rank))
    rhs = data.draw(right_hand_sides(rank))
    guess = data.draw(guesses(len(rhs), rank))
    solved = solve_rows(rhs, gram, nonnegative=nonnegative, guess=guess)
    plain = plain_rows(rhs, gram, nonnegative)
    assert_rows_equal(solved, plain, rhs, gram)
    assert not nonnegative or (solved >= 0.0).all()


def test_rows_solved_by_hand_are_solved_by_kernel_and_twin():
    half, aim = np.array([[2.0, 1.0], [1.0, 1.0], [1.0, 1.0]]), np.array([1.0, 2.0, 2.0])
    gram, rhs = half.T @ half, (half.T @ aim)[None]
    by_hand = [[0.0, 5.0 / 3.0]]  # the slope of the first coordinate there is 1/3 > 0
    assert np.allclose(solve_rows(rhs, gram, nonnegative=True), by_hand, rtol=1e-12)
    assert np.allclose(reference.nonnegative_rows(rhs, gram), by_hand, rtol=1e-12)


@pytest.mark.parametrize("rank", [3, 10, 25])
def test_rows_are_the_same_to_the_last_bit_whatever_the_guess(rank):
    """A hospital that resumes has no rows of before, and must send the same numbers."""
    rng = np.random.default_rng(rank)
    factor = np.maximum(rng.standard_normal((40, rank)), 0.0) + 0.3 * rng.random((40, 1))
    product = (rng.random((3000, 40)) < 0.1) @ factor
    product[::7] -= rng.random((len(product[::7]), rank))
    fresh = solve_rows(product, factor.T @ factor, nonnegative=True)
    for guess in (fresh, fresh * rng.random(fresh.shape), rng.random(fresh.shape) * fresh.max()):
        found = solve_rows(product, factor.T @ factor, nonnegative=True, guess=guess)
        assert np.array_equal(found, fresh)


@given(data=st.data())
@quick
def test_a_guess_is_not_written_to(data):
    guess = np.ones((6, 3))
    rhs = data.draw(right_hand_sides(3))
    solve_rows(rhs, data.draw(positive_definite(3)), nonnegative=True, guess=guess)
    assert np.array_equal(guess, np.ones((6, 3)))


@pytest.mark.parametrize("rank", [3, 10, 17])
@given(seed=st.integers(0, 2**32 - 1), twins=st.booleans(), data=st.data())
@settings(max_examples=60, deadline=None)
def test_nearly_singular_rows_meet_the_conditions_of_a_minimum(rank, seed, twins, data):
    """x ≥ 0, slope ≥ 0 everywhere and = 0 where x > 0: no other point is better."""
    rng = np.random.default_rng(seed)
    half = np.abs(rng.normal(size=(rank - 1, rank)))
    if twins:
        half[:, 1] = half[:, 0]
    gram, ridged = regular(half.T @ half)
    assert ridged
    rhs = rng.normal(loc=0.5, size=(6, rank)) @ (half.T @ half)
    guess = data.draw(guesses(6, rank))
    for x, b in zip(solve_rows(rhs, gram, nonnegative=True, guess=guess), rhs, strict=True):
        slope = gram @ x - b
        small = 1e-10 * (np.abs(gram).max() * np.abs(x).sum() + np.abs(b).max())
        assert (x >= 0.0).all()
        assert (slope >= -small).all()
        assert np.all(np.abs(slope[x > 0.0]) <= small)


@pytest.mark.parametrize("guess", ["none", "all", "last", "others'"])
@pytest.mark.parametrize("rank", [50, 200])
def test_rows_of_many_components_meet_the_conditions_of_a_minimum(rank, guess):
    """Alike components, a few of which each row has: what non-negative factors of counts give."""
    rng = np.random.default_rng(rank)
    half = rng.random((3 * rank, rank)) ** 4
    truth = np.where(rng.random((60, rank)) < 0.3, rng.exponential(size=(60, rank)), 0.0)
    gram = half.T @ half
    rhs = (truth @ half.T + 0.3 * rng.normal(size=(60, 3 * rank))) @ half
    first = {"none": None, "all": np.ones_like(rhs), "last": truth, "others'": truth[::-1]}[guess]
    solved = solve_rows(rhs, gram, nonnegative=True, guess=first)
    slope = solved @ gram - rhs
    assert (solved >= 0.0).all()
    assert slope.min() >= -1e-11 * rhs.max()
    assert np.abs(slope[solved > 0.0]).max() <= 1e-11 * rhs.max()
    assert 0.1 < (solved > 0.0).mean() < 0.6


# ── threads ───────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def hospital():
    """A hospital large enough to be shared among threads, once chunks are small."""
    rng = np.random.default_rng(5)
    shape = (700, 40, 30)
    indices = np.column_stack([rng.integers(0, size, 100_000) for size in shape])
    tensor = CountTensor.from_cells(indices, rng.integers(1, 9, 100_000), shape=shape)
    made = [rng.random((size, 10)) for size in shape]
    return tensor, made[1:], made[0]


def all_answers(tensor, features, patients):
    gram = gram_of_others(features)
    cells = tensor.cells
    return [
        cells.patient_product(features),
        *(cells.feature_product(features, patients, mode) for mode in range(2)),
        np.array(cells.at_cells(features, patients)),
        *cells.update_patients(features, gram, nonnegative=True),
        *cells.update_patients(features, gram, nonnegative=False),
        solve_rows(np.tile(patients, (20, 1)) - 0.4, gram, nonnegative=True),
    ]


def test_one_thread_and_four_give_the_same_bits(hospital, monkeypatch):
    tensor, features, patients = hospital
    monkeypatch.setattr(threads, "CELLS_PER_CHUNK", 5_000)
    assert len(threads.patient_chunks(tensor.cells.starts)) > 1
    answers = {}
    for workers in (1, 4):
        with threads.limited_to(workers):
            answers[workers] = all_answers(tensor, features, patients)
    for one, four in zip(answers[1], answers[4], strict=True):
        assert one.tobytes() == four.tobytes()


@given(
    lengths=st.lists(st.integers(0, 40), max_size=30),
    per_chunk=st.sampled_from([1, 7, 100, 20_000]),
)
@settings(max_examples=200, deadline=None)
def test_chunks_cover_every_patient_once_in_order(lengths, per_chunk):
    starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threads, "CELLS_PER_CHUNK", per_chunk)
        chunks = threads.patient_chunks(starts)
    assert [i for first, last in chunks for i in range(first, last)] == list(range(len(lengths)))
    fitting = max(1, int(starts[-1]) // per_chunk)
    assert 1 <= len(chunks) <= 1 << (fitting - 1).bit_length()  # a few are a power of two


def test_chunks_grow_in_number_with_the_data_and_in_size_with_the_sums_they_keep():
    starts = np.arange(10_001) * 1_000
    assert len(threads.patient_chunks(starts)) == 100
    assert len(threads.patient_chunks(10 * starts)) == 1_000
    assert len(threads.patient_chunks(starts, 3_229)) == 24


@given(count=st.integers(1, 40), workers=st.integers(1, 5), seed=st.integers(0, 2**32 - 1))
@settings(max_examples=50, deadline=None)
def test_a_sum_over_chunks_is_a_fixed_tree_whoever_adds(count, workers, seed):
    numbers = np.random.default_rng(seed).normal(size=(count, 3))

    def plain(parts):
        """Neighbours two by two, and those again, until one is left."""
        if len(parts) == 1:
            return parts[0]
        pairs = [sum(parts[n : n + 2][1:], parts[n]) for n in range(0, len(parts), 2)]
        return plain(pairs)

    def work(first, last, part):
        part += numbers[first:last].sum(axis=0)

    with threads.limited_to(workers):
        total = threads.sum_over_chunks([(n, n + 1) for n in range(count)], 3, work)
    assert total.tobytes() == plain(list(numbers)).tobytes()


def test_a_fault_in_one_chunk_is_raised():
    def work(first, last):
        if first == 3:
            raise ValueError("chunk 3")

    with pytest.raises(ValueError, match="chunk 3"):
        threads.in_chunks([(n, n + 1) for n in range(9)], work)


def test_a_hospital_without_patients_contributes_zeros():
    tensor = CountTensor.from_cells([[0, 1, 1]], [3]).select_patients(np.zeros(0, dtype=int))
    features, nobody = [np.ones((2, 4))] * 2, np.ones((0, 4))
    assert tensor.cells.patient_product(features).shape == (0, 4)
    assert np.array_equal(tensor.cells.feature_product(features, nobody, 0), np.zeros((2, 4)))
    assert tensor.cells.at_cells(features, nobody) == (0.0, 0.0)
    factor, product = tensor.cells.update_patients(features, np.eye(4), nonnegative=True)
    assert factor.shape == (0, 4)
    assert not product.any()


# ── counting ──────────────────────────────────────────────────────────────────────────────────


def counted(tensor):
    """(patient, code, code, …) → count, as the twin writes it."""
    indices, values = tensor.coordinates()
    return {
        (
            int(row[0]),
            *(axis.codes[at] for axis, at in zip(tensor.axes, row[1:], strict=True)),
        ): int(count)
        for row, count in zip(indices, values, strict=True)
    }


def assert_counted_as_the_twin(events, rule):
    expected = dict(reference.count(events, rule))
    if not expected:
        with pytest.raises(EmptyTensor):
            CountTensor.from_events(events, rule=rule)
        return
    tensor = CountTensor.from_events(events, rule=rule)
    assert counted(tensor) == expected
    assert tensor.patients == 1 + max(events["patient"].to_pylist())
    assert np.array_equal(np.sort(tensor.patient_of_cell), tensor.patient_of_cell)


@pytest.mark.parametrize("window", ["visit", "person", "same-day", "every-6h", "3h", "1d", "0h"])
@pytest.mark.parametrize("cap", [None, 1, 2])
@given(events=event_tables())
@settings(max_examples=50, deadline=None)
def test_events_are_counted_as_by_the_twin(window, cap, events):
    assert_counted_as_the_twin(events, CountingRule(MODES[:2], window, cap))


@pytest.mark.parametrize("window", ["visit", "person", "same-day", "every-6h"])
@pytest.mark.parametrize("cap", [None, 2])
@given(events=event_tables(feature_modes=3))
@quick
def test_events_of_three_modes_are_counted_as_by_the_twin(window, cap, events):
    assert_counted_as_the_twin(events, CountingRule(MODES[:3], window, cap))


@pytest.mark.parametrize("window", ["person", "1d"])
@given(events=event_tables(), keys_at_once=st.sampled_from([1, 3, 10]))
@quick
def test_counting_patients_in_chunks_changes_nothing(window, events, keys_at_once):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(counting, "KEYS_AT_ONCE", keys_at_once)
        assert_counted_as_the_twin(events, CountingRule(MODES[:2], window))


@pytest.mark.parametrize("feature_modes", [2, 3])
@given(data=st.data())
@quick
def test_twins_of_a_patient_are_drawn_and_multiplied_like_the_plain_ones(data, feature_modes):
    tensor, _, features, _ = draw_tensor(data, feature_modes, 3)
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    codes = [np.unique(column, return_inverse=True) for column in tensor.cells.indices.T]
    drawn, places, begin, offset = [], [], 0, 0
    for (own, place), axis in zip(codes, tensor.axes, strict=True):
        people = rng.integers(0, 4, axis.size)
        ends = np.cumsum(people / max(people.sum(), 1.0))
        numbers = rng.random((4, 3 * len(own) + 2))
        found, short = np.zeros((4, len(own)), dtype=np.int64), np.zeros(4, dtype=bool)
        first_distinct(ends, guide_to(ends), numbers, found, short)
        plain = reference.first_distinct(ends, numbers, len(own))
        assert [row[: len(twin)] for row, twin in zip(found.tolist(), plain, strict=True)] == plain
        assert short.tolist() == [len(twin) < len(own) for twin in plain]
        drawn.append(found + offset)
        places.append(place + begin)
        begin, offset = begin + len(own), offset + axis.size
    given_to = (
        tensor.cells.values.astype(np.float64), np.column_stack(places), np.hstack(drawn),
        np.vstack(features),
    )  # fmt: skip
    made = np.zeros((4, 3))
    relabelled_products(*given_to, made)
    scale = reference.relabelled_products(*absolute(given_to)).max()
    assert_equal(made, reference.relabelled_products(*given_to), scale)
