"""A tensor in parts answers what the tensor in one piece answers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tripheno.evaluation.membership import members
from tripheno.records.events import CountingRule, read_events, write_events
from tripheno.solver.diagnostics import core_parts
from tripheno.solver.influence import slice_norms, with_bound
from tripheno.solver.squared import SquaredLoss
from tripheno.solver.starts import sketch, sketch_matrix, uniform_start
from tripheno.study.phenotyper import Phenotyper
from tripheno.tensor import large
from tripheno.tensor.count_tensor import CountTensor, pooled
from tripheno.tensor.parts import PatientParts
from tripheno.vocabulary.axis import Axis

RULES = {
    "visit": CountingRule(("medication", "diagnosis"), "visit"),
    "cap": CountingRule(("medication", "diagnosis"), "visit", 2),
    "sliding": CountingRule(("medication", "diagnosis"), "6h"),
    "three": CountingRule(("medication", "diagnosis", "lab"), "visit"),
}


def events(patients: int = 90, seed: int = 0, each: int = 24) -> pa.Table:
    """Events sorted by patient; some numbers have no patient, some codes are rare."""
    rng = np.random.default_rng(seed)
    patient = np.sort(rng.integers(0, patients, patients * each) // 2 * 2)
    number = len(patient)
    mode = np.array(["medication", "diagnosis", "lab"])[rng.integers(0, 3, number)]
    code = [f"{m}-{c}" for m, c in zip(mode, rng.zipf(1.7, number) % 23, strict=True)]
    time = np.datetime64("2020-01-01", "us") + rng.integers(0, 10**11, number)
    window = patient * 10 + rng.integers(0, 4, number)
    return pa.table(
        {"patient": patient, "window": window, "time": time, "mode": mode, "code": code}
    )


@pytest.fixture(params=list(RULES))
def both(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[CountTensor, CountTensor]:
    """The same events in one piece and in parts."""
    rule = RULES[request.param]
    path = written(tmp_path, monkeypatch, rule)
    whole = CountTensor.from_events(read_events(path))
    parts = large.count_file(path)
    assert isinstance(parts.cells, PatientParts)
    assert len(parts.cells.parts) > 3
    return whole, parts


def written(folder: Path, monkeypatch: pytest.MonkeyPatch, rule: CountingRule) -> Path:
    """A hospital's folder whose events are many and come in small row groups."""
    monkeypatch.setattr(large, "LARGE", 100)
    monkeypatch.setattr(large, "EVENTS_PER_PART", 300)
    (folder / "local").mkdir()
    path = folder / "events.parquet"
    write_events(events(), path, rule)
    table = read_events(path)
    import pyarrow.parquet as pq

    pq.write_table(table, path, row_group_size=170)
    return path


def same_cells(one: CountTensor, other: CountTensor) -> None:
    """Equal axes and cells, in whatever order a patient's cells stand."""
    assert one.axes == other.axes
    assert one.shape == other.shape
    found = [np.column_stack([*t.coordinates()]) for t in (one, other)]
    assert np.array_equal(*(rows[np.lexsort(rows.T[::-1])] for rows in found))


def test_parts_hold_the_same_cells_and_come_through_every_change(
    both: tuple[CountTensor, CountTensor],
) -> None:
    whole, parts = both
    same_cells(whole, parts)
    same_cells(whole.drop_unused(), parts.drop_unused())
    turned = tuple(
        Axis(axis.mode, axis.size - 2, tuple(axis.codes or ())[:1:-1]) for axis in whole.axes
    )
    same_cells(whole.on_axes(turned), parts.on_axes(turned))
    rows = np.arange(0, whole.patients, 3)
    same_cells(whole.select_patients(rows), parts.select_patients(rows))
    same_cells(pooled([whole, whole]), pooled([parts, whole]))
    indices, _ = whole.coordinates()
    for n, people in enumerate(parts.people_at_positions()):
        pairs = np.unique(indices[:, [0, n + 1]], axis=0)
        assert np.array_equal(people, np.bincount(pairs[:, 1], minlength=len(people)))


def test_parts_contribute_what_one_piece_contributes(
    both: tuple[CountTensor, CountTensor],
) -> None:
    whole, parts = (with_bound(t.drop_unused(), 3.0) for t in both)
    models = [uniform_start(whole.axes, 4, 0, k) for k in range(3)]
    loss, weights = SquaredLoss(), np.random.default_rng(1).exponential(size=(whole.patients, 3))
    assert np.allclose(slice_norms(whole), slice_norms(parts), rtol=1e-12)
    assert np.isclose(whole.squared_norm, parts.squared_norm, rtol=1e-12)
    for n in range(len(whole.axes)):
        sums = []
        for tensor in (whole, parts):
            rows = [one * np.full(4, 2.0) for one in loss.fit_patients(tensor, models)]
            sums.append(loss.contribution(tensor, models, rows, n, resampling=weights))
        for one, other in zip(*(s.arrays().values() for s in sums), strict=True):
            assert np.allclose(one, other, rtol=1e-9, atol=1e-9)
    seen = np.arange(whole.axes[-1].size) % 2 == 0
    assert np.allclose(*(loss.held_out(t, models[0], seen) for t in (whole, parts)), rtol=1e-9)
    omega = sketch_matrix(whole.axes, 4, 0)
    assert np.allclose(sketch(whole, omega), sketch(parts, omega), rtol=1e-9)
    (rows,) = loss.fit_patients(whole, models[:1])
    one, other = (core_parts(t, rows, models[0]).core for t in (whole, parts))
    assert np.allclose(one, other, rtol=1e-9, atol=1e-9)
    assert np.array_equal(*(members(t, models[0], SquaredLoss()) for t in (whole, parts)))


@pytest.mark.parametrize("method", ["exact", "trip", "central"])
def test_phenotypes_do_not_depend_on_the_number_of_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    path = written(tmp_path, monkeypatch, RULES["visit"])
    found = []
    for size, largest in ((300, 100), (900, 100), (900, 10**9)):
        monkeypatch.setattr(large, "LARGE", largest)
        monkeypatch.setattr(large, "EVENTS_PER_PART", size)
        (tmp_path / "events.parquet").touch()
        model = Phenotyper(3, method=method, starts=4, max_iter=8, resamples=0)
        found.append(model.fit([str(path)]).components_)
    for other in found[1:]:
        for mode, factor in found[0].items():
            assert np.allclose(factor, other[mode], rtol=1e-9, atol=1e-9)


def test_a_count_that_was_stopped_goes_on_with_the_parts_that_are_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path, monkeypatch, RULES["visit"])
    real, calls = large._counted, []

    def stops(*given: object) -> object:
        calls.append(given[2])
        if len(calls) == 3:
            raise KeyboardInterrupt
        return real(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(large, "_counted", stops)
    with pytest.raises(KeyboardInterrupt):
        large.count_file(path)
    tensor = large.count_file(path)
    assert calls[:4] == [0, 1, 2, 2]
    same_cells(CountTensor.from_events(read_events(path)), tensor)
    kept = list((tmp_path / "local" / "parts").glob("*/*.part"))
    assert len(kept) == len(tensor.cells.parts)  # type: ignore[union-attr]
    assert {path.stat().st_mode & 0o777 for path in kept} == {0o600}
    large.count_file(path, replace(RULES["visit"], cap=1))
    assert not any(path.exists() for path in kept)


def test_events_that_are_not_sorted_are_counted_in_one_piece(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path = written(tmp_path, monkeypatch, RULES["visit"])
    table = read_events(path)
    write_events(table.take(np.arange(table.num_rows)[::-1]), path, RULES["visit"])
    tensor = large.count_file(path)
    assert not isinstance(tensor.cells, PatientParts)
    assert "not sorted" in caplog.text
