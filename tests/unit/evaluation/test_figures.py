from __future__ import annotations

import numpy as np
import pytest

import tripheno
from kit.planted import planted
from tripheno.evaluation.communication import seconds_at_15_mbps
from tripheno.evaluation.comparison import compare, share_out
from tripheno.evaluation.recovery import recovery
from tripheno.lab.paper.communication import consensus_bytes, seed_communication_seconds
from tripheno.solver.fit import fit
from tripheno.solver.settings import SolverSettings
from tripheno.tensor import reference
from tripheno.tensor.count_tensor import CountTensor


def test_the_authors_rule_gives_the_seeds_communication_time():
    assert round(seed_communication_seconds((8022, 748, 299), 2, 10, 100), 4) == 15.1196
    assert seed_communication_seconds((38035, 3229, 304), 3, 10, 100) == pytest.approx(
        101.0, abs=0.1
    )


def test_our_count_beside_it_moves_only_what_consensus_needs():
    ucsd = seconds_at_15_mbps(consensus_bytes((8022, 748, 299), 2, 10, 100))
    assert ucsd == pytest.approx(2.1, abs=0.1)
    mimic = seconds_at_15_mbps(consensus_bytes((38035, 3229, 304), 3, 10, 100))
    assert mimic == pytest.approx(10.8, abs=0.1)


def test_counted_bytes_are_the_messages_that_were_sent():
    """One `exact` run by hand: begin, (N−1) rounds an iteration, the finished factors, release."""
    hospitals = share_out(planted(0).together, 2, None, np.random.default_rng(0))
    settings = SolverSettings(6, "exact", starts=1, influence="none")
    found = fit(hospitals, settings)
    sizes = [factor.shape[0] for factor in found.factors]
    rounds = found.iterations + 1  # the verdict on the last iterate comes with one more round
    arrays_up = 8 * 6 * (rounds * sizes[0] + found.iterations * sizes[1] + sum(sizes))
    assert arrays_up < found.costs.bytes_up_per_hospital < 1.35 * arrays_up + 2000
    total = found.costs.bytes_up_per_hospital + found.costs.bytes_down_per_hospital
    assert found.costs.bytes_total == 2 * total
    assert found.history[-1].bytes <= found.costs.bytes_total


def test_pooling_sends_every_cell_once_and_nothing_back():
    hospitals = planted(0).hospitals
    settings = SolverSettings(3, "central", starts=1, influence="none", max_iter=2)
    with pytest.warns(tripheno.errors.NotConverged):
        costs = fit(hospitals, settings).costs
    sent = [4 * 4 * tensor.nonzeros for tensor in hospitals.values()]  # three indices and a count
    assert (costs.bytes_up_per_hospital, costs.bytes_total) == (max(sent), sum(sent))
    assert costs.bytes_down_per_hospital == 0


def test_patient_factors_do_not_travel():
    """Doubling the patients changes no byte of a round."""
    whole = planted(0).together
    twice = whole.select_patients(np.tile(np.arange(whole.patients), 2))
    settings = SolverSettings(6, "trip", max_iter=2, tol=1e-12, most_inner_steps=3, starts=1)
    with pytest.warns(tripheno.errors.NotConverged):
        one = fit({"h": whole}, settings)
    with pytest.warns(tripheno.errors.NotConverged):
        two = fit({"h": twice}, settings)
    assert one.costs.bytes_total == two.costs.bytes_total


@pytest.mark.parametrize("shape", [(12, 7, 5), (9, 4, 5, 3)])
def test_the_three_errors_equal_a_dense_computation(shape):
    rng = np.random.default_rng(1)
    dense = rng.poisson(0.6, shape)
    tensor = CountTensor.from_cells(np.argwhere(dense), dense[dense > 0], shape=shape)
    factors = [rng.random((size, 3)) for size in shape]
    nonzero, every = reference.squared_errors(dense.astype(float), factors)
    found = tripheno.rmse(tensor, factors)
    assert found.nonzeros == pytest.approx(np.sqrt(nonzero / tensor.nonzeros), rel=1e-12)
    assert found.frobenius_per_nonzero == pytest.approx(np.sqrt(every / tensor.nonzeros), rel=1e-12)
    assert found.all_cells == pytest.approx(np.sqrt(every / dense.size), rel=1e-12)


@pytest.mark.filterwarnings("ignore::tripheno.errors.NotConverged")
@pytest.mark.parametrize("method", ["trip", "exact", "central", "local"])
@pytest.mark.parametrize("modes", [3, 4])
def test_a_solutions_errors_equal_a_dense_computation_of_its_model(method, modes):
    hospitals = planted(1, modes).hospitals
    with np.errstate(all="raise"):
        settings = SolverSettings(6, method, starts=1, influence="none", max_iter=60, tol=1e-4)
        found = fit(hospitals, settings)
    patients = np.concatenate(list(found.patient_factors.values()))
    dense = np.concatenate([tensor.to_tensorly() for tensor in hospitals.values()])
    nonzero, every = reference.squared_errors(dense, [patients, *found.factors])
    assert found.rmse.nonzeros == pytest.approx(np.sqrt(nonzero / found.nonzeros), rel=1e-9)
    assert found.rmse.all_cells == pytest.approx(np.sqrt(every / dense.size), rel=1e-7)
    assert found.objective == pytest.approx(every, rel=1e-7)


def test_comparison_with_itself_is_perfect_and_gaps_are_signed():
    hospitals = planted(2).hospitals
    central = fit(hospitals, SolverSettings(6, "central", tol=1e-4, starts=1))
    assert compare(central, central) == pytest.approx((0.0, 1.0))
    fewer = fit(hospitals, SolverSettings(3, "central", tol=1e-4, starts=1))
    assert compare(fewer, central).rmse_gap > 0.01
    assert compare(central, fewer).rmse_gap < -0.01


def test_skew_is_the_share_of_the_first_hospital():
    parts = share_out(planted(0).together, 4, 0.7, np.random.default_rng(0))
    sizes = [part.patients for part in parts.values()]
    assert sizes == [490, 70, 70, 70]
    assert sum(part.nonzeros for part in parts.values()) == planted(0).together.nonzeros


def test_recovery_names_the_component_that_is_most_like_each_planted_phenotype():
    planted_columns = {"m": np.eye(4)[:, :2], "d": np.eye(3)[:, :2]}
    found_columns = {"m": np.eye(4)[:, [1, 3]], "d": np.eye(3)[:, [1, 2]]}
    first, second = recovery(["one", "two"], planted_columns, found_columns)
    assert not first.found
    assert second.found
    assert second.component == 0
