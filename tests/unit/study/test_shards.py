"""A hospital in shards finds what it finds in one piece."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from kit.planted import planted
from tripheno.errors import SettingsError, ShardLost
from tripheno.exchange.communicator import in_clear
from tripheno.lab.synthetic.network import SyntheticSettings, synthetic_network
from tripheno.solver.fit import fit
from tripheno.solver.settings import SolverSettings
from tripheno.study.evidence import seeded_generators, weigh
from tripheno.study.makers import Maker
from tripheno.tensor.count_tensor import CountTensor
from tripheno.tensor.part_files import saved_part
from tripheno.tensor.parts import PatientParts
from tripheno.tensor.shard_messages import packed, unpacked
from tripheno.tensor.shard_processes import Processes
from tripheno.tensor.shards import PatientShards, Shards

SETTINGS = SolverSettings(4, seed=3, starts=2, max_iter=6, tol=1e-9)
slow = pytest.mark.verify
KINDS = {
    "exact": SETTINGS,
    "trip": replace(SETTINGS, method="trip", starts=1),
    "sparse": replace(SETTINGS, constraint="sparse", starts=1),
    "single": replace(SETTINGS, precision="single", starts=1, max_iter=4),
    "poisson": replace(SETTINGS, loss="poisson", starts=2, max_iter=6),
    "rmse": replace(SETTINGS, track_rmse=True, bias=True, starts=1),
}


@pytest.fixture(
    scope="module", params=[pytest.param(1, marks=slow), 2, pytest.param(4, marks=slow)]
)
def shards(request: pytest.FixtureRequest) -> Iterator[Shards]:
    """One pool for all tests of a number of shards: starting it takes a second."""
    with Shards(Processes(request.param)) as pool:
        yield pool


def placed(pool: Shards, tensors: dict[str, CountTensor]) -> dict[str, CountTensor]:
    return {name: pool.place(tensor) for name, tensor in tensors.items()}


@pytest.mark.filterwarnings("ignore::tripheno.errors.TriphenoWarning")
@pytest.mark.parametrize(
    "kind",
    [pytest.param(k, marks=slow) if k in ("single", "poisson", "rmse") else k for k in KINDS],
)
def test_every_method_finds_the_same_factors_and_patients(shards: Shards, kind: str) -> None:
    whole, settings = planted(0).hospitals, KINDS[kind]
    names = tuple(whole)
    one = fit(whole, settings, Maker("blind")(names))
    many = fit(placed(shards, whole), settings, Maker("blind")(names))
    assert many.iterations == one.iterations
    assert many.objective == pytest.approx(one.objective, rel=1e-9)
    close = 1e-9 if settings.precision == "double" else 1e-5
    for found, known in zip(many.factors, one.factors, strict=True):
        np.testing.assert_allclose(found, known, atol=close)
    for name in names:
        known = one.patient_factors[name]
        np.testing.assert_allclose(
            many.patient_factors[name], known, atol=close * max(np.abs(known).max(), 1.0)
        )


@pytest.mark.filterwarnings("ignore::tripheno.errors.TriphenoWarning")
def test_evidence_does_not_hang_on_the_number_of_shards(shards: Shards) -> None:
    whole = planted(1).hospitals
    dealt = placed(shards, whole)
    found = []
    for tensors in (whole, dealt):
        federation = in_clear(tensors)
        solution = fit(tensors, SETTINGS, federation)
        generators = seeded_generators(5)
        found.append(
            weigh(federation, tensors, solution, generators=generators, resamples=3, fewest=5)
        )
    one, many = found
    assert (one.carriers, one.without) == (many.carriers, many.without)
    np.testing.assert_allclose(many.effective, one.effective, rtol=1e-9)
    for a, b in zip(one.intervals, many.intervals, strict=True):
        np.testing.assert_allclose(a.low, b.low, atol=1e-9)
        np.testing.assert_allclose(a.high, b.high, atol=1e-9)
    for name in whole:
        assert (one.having[name] == many.having[name]).all()


def test_parts_in_files_are_dealt_out_and_their_memory_is_not(
    shards: Shards, tmp_path: Path
) -> None:
    whole = planted(0).together
    rows = np.array_split(np.arange(whole.patients), 5)
    parts, files = zip(
        *(saved_part(whole.select_patients(some).cells, tmp_path) for some in rows), strict=True
    )
    weights = np.random.default_rng(0).random(whole.patients)
    cells = PatientParts(parts, files, tmp_path, weights)
    dealt = shards.place(CountTensor(whole.axes, cells)).cells
    assert isinstance(dealt, PatientShards)
    whole = whole.with_weights(weights)
    factors = [np.random.default_rng(n).random((axis.size, 3)) for n, axis in enumerate(whole.axes)]
    patients, product = whole.cells.update_patients(factors, np.eye(3), nonnegative=True)
    there, total = dealt.update_patients(factors, np.eye(3), nonnegative=True)
    np.testing.assert_allclose(np.asarray(there), patients, rtol=1e-12)
    np.testing.assert_allclose(total, product, rtol=1e-12)
    twice = there * np.array([1.0, 2.0, 3.0])
    np.testing.assert_allclose(
        dealt.patient_gram(twice), whole.cells.patient_gram(patients * [1.0, 2.0, 3.0]), rtol=1e-12
    )
    assert dealt.squared_norm == pytest.approx(whole.squared_norm, rel=1e-12)


def test_rows_that_nobody_names_are_forgotten(shards: Shards) -> None:
    tensor = shards.place(planted(0).together)
    rows = tensor.with_its_patients(np.ones((tensor.patients, 2)))
    scaled, key = rows * np.full(2, 3.0), rows.key
    del rows
    assert key not in shards.forgotten
    assert np.asarray(scaled).sum() == 6.0 * tensor.patients
    del scaled
    assert key in shards.forgotten


def test_a_killed_shard_is_an_error_and_no_wait() -> None:
    engine = Processes(2)
    with Shards(engine) as pool:
        tensor = pool.place(planted(0).together)
        os.kill(engine.ids[1], signal.SIGKILL)
        with pytest.raises(ShardLost, match=r"TRIP-E104 shard 2 of 2 ended · signal 9"):
            fit({"one": tensor}, SETTINGS)
    assert all(child.poll() is not None for child in engine._children)


def test_a_failure_at_a_shard_is_told_by_its_kind_alone() -> None:
    with Shards(Processes(1)) as pool:
        tensor = pool.place(planted(0).together)
        with pytest.raises(ShardLost, match=r"could not compute · ValueError$"):
            tensor.cells.patient_gram(np.ones((tensor.patients, 2, 2, 2)))


def test_more_shards_than_patients_are_refused() -> None:
    with Shards(Processes(2)) as pool, pytest.raises(SettingsError, match="2 shards for 1"):
        pool.place(planted(0).together.select_patients(np.array([0])))


def test_shards_have_about_as_many_cells_each() -> None:
    network = synthetic_network(SyntheticSettings(patients_per_hospital=(400,), seed=2))
    tensor = CountTensor.from_events(network.hospitals[0].events)
    with Shards(Processes(4)) as pool:
        cells = pool.place(tensor).cells
    shares = np.diff(tensor.cells.starts[cells.cuts]) / tensor.nonzeros
    assert shares == pytest.approx(0.25, abs=0.05)


def test_a_message_between_shards_is_itself_again() -> None:
    tree = {"a": [1, "x", None, np.arange(6, dtype="<f4").reshape(2, 3)], "b": np.zeros((0, 2))}
    found = unpacked(packed(tree))
    assert found["a"][:3] == [1, "x", None]
    assert found["a"][3].dtype == np.float32
    np.testing.assert_array_equal(found["a"][3], tree["a"][3])
    assert found["b"].shape == (0, 2)
    assert found["a"][3].flags.writeable
