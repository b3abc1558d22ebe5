"""What all hospitals make of proposals: residuals of a step, weights, when a mode is at rest."""

from dataclasses import replace

import numpy as np
import pytest

from tripheno.errors import PaperVariant
from tripheno.solver.hospital import HospitalState, _set_penalty
from tripheno.solver.messages import FactorNews, NormalEquations, Proposal, Totals
from tripheno.solver.method import Exact, SharedState
from tripheno.solver.settings import SolverSettings
from tripheno.solver.trip import Trip, trip_rules
from tripheno.tensor.count_tensor import CountTensor

RANK = 2
GRAM = np.array([3.0, 4.0])  # diag ΣG


def chosen(own):
    """All hospitals choose as this one does."""
    return own


def begun(**more):
    server = Trip(SolverSettings(RANK, "trip", constraint="none", **more))
    factors = (np.eye(3)[:, :RANK], np.eye(4)[:, :RANK])
    return server, server.start(factors, Totals(100.0, 10.0, 5.0))


def proposed(wanted, omega):
    """What hospitals send when all want the same factor."""
    penalty = np.stack([omega, omega**2, GRAM])
    return Proposal(wanted * omega, penalty, np.zeros(6))


def test_the_dual_residual_is_that_of_the_last_step_in_the_units_of_the_multipliers():
    server, state = begun(inner_steps=2, most_inner_steps=9)
    omega = np.array([2.0, 5.0])
    first, second = np.eye(3)[:, :RANK] * 3.0, np.eye(3)[:, :RANK] * 4.0
    state = server.absorb(state, 0, 0, proposed(first, omega), chosen)
    assert not state.settled
    assert state.dual_residual[0] == pytest.approx(2.0**2 * (2.0**2 + 5.0**2))
    while not state.settled:
        before = state.shared_factors[0]
        state = server.absorb(state, 0, 1, proposed(second, omega), chosen)
    # at rest the columns, four long, give their length to patients and multipliers
    assert np.allclose(np.linalg.norm(state.shared_factors[0], axis=0), 1.0)
    step = (second - before) * 4.0 * omega
    assert state.dual_residual[0] == pytest.approx(float((step**2).sum()))


def test_the_multiplier_of_the_split_is_the_slope_of_distinctness_after_every_step():
    rng = np.random.default_rng(0)
    a, y = rng.random((5, 3)), rng.standard_normal((5, 3))
    state = SharedState((a,), Totals(1.0, 1.0, 1.0), (), split_factors=(a,), split_dual=(y,))
    after = Trip(SolverSettings(3, "trip"))._update_split(state, 0, a, 2.8, 0.7)
    (b,), (multiplier,) = after.split_factors, after.split_dual
    assert np.allclose(multiplier, 0.7 * a @ (np.eye(3) - a.T @ b), rtol=1e-12, atol=1e-12)


def test_one_step_a_mode_unless_told_otherwise():
    method, state = begun()
    state = method.absorb(state, 0, 0, proposed(np.eye(3)[:, :RANK], np.ones(RANK)), chosen)
    assert state.settled
    assert np.allclose(state.typical[0], GRAM)


def test_a_consensus_that_more_than_half_find_at_rest_is_at_rest():
    method, state = begun(most_inner_steps=9)
    wanted = proposed(state.shared_factors[0], np.ones(RANK))
    assert method.absorb(state, 0, 0, wanted, chosen).settled
    assert not method.absorb(state, 0, 0, wanted, lambda own: 0 * own).settled


HARDLY = {  # of a component: what all hospitals have of it, its weight at this one
    "unknown": (np.zeros(RANK), 2.0 * 1e-3 * 100.0),
    "elsewhere": (np.array([40.0, 80.0]), 2.0 * 80.0 / 4),
    "nowhere": (np.array([40.0, 0.0]), 2.0 * 1e-9 * (100.0 + 1.0) / RANK),
}


@pytest.mark.parametrize(("typical", "weight"), HARDLY.values(), ids=list(HARDLY))
def test_a_component_a_hospital_hardly_has_still_weighs_in_the_consensus(typical, weight):
    gram = np.diag([100.0, 0.0])
    cells = np.array([[0, 0, 0]])
    tensor = CountTensor.from_cells(cells, np.array([1]), shape=(1, 3, 4))
    settings = SolverSettings(RANK, "trip", constraint="none")
    state = replace(
        HospitalState(tensor, settings, hospitals=4), gram=gram, penalties=(np.ones(RANK),)
    )
    news = FactorNews(-1, np.zeros((0, RANK)), np.ones(RANK), 0, True, 1.0, typical)
    omega = _set_penalty(state, news, trip_rules(settings)).penalties[0]
    assert omega[0] == 200.0
    assert omega[1] == pytest.approx(weight, rel=1e-12)


def test_the_released_split_penalty_grows_by_a_tenth_an_iteration():
    settings = SolverSettings(RANK, "trip", variant="released", constraint="none", distinctness=1.0)
    with pytest.warns(PaperVariant):
        server = Trip(settings.with_variant_rules())
    factors = (np.eye(3)[:, :RANK], np.eye(4)[:, :RANK])
    state = replace(server.start(factors, Totals(100.0, 10.0, 5.0)), iteration=3)
    assert server._split_penalty(state, 1.0) == pytest.approx(1e-10 * 1.1**2)


def test_the_slope_of_an_iteration_is_the_steepest_of_its_modes():
    server = Exact(SolverSettings(RANK, "exact"))
    start = (np.full((3, RANK), 3**-0.5), np.full((4, RANK), 0.5))
    state = replace(server.start(start, Totals(100.0, 10.0, 5.0)), slope=1e6)

    def absorbed(n, size):
        total = NormalEquations(np.ones((size, RANK)), np.diag([2.0, 3.0]), np.zeros(6))
        return server.absorb(state, n, 0, total, chosen).slope

    assert absorbed(0, 3) < 1e6  # that of the iteration before is forgotten
    assert absorbed(1, 4) == 1e6


def test_steps_are_lengthened_in_the_corrected_variant_alone():
    assert SolverSettings(RANK).relaxation == 1.6
    given = {"consensus_penalty": 1.0, "split_penalty": 1.0}
    for variant in ("printed", "released"):
        settings = SolverSettings(RANK, "trip", variant=variant, **given).with_variant_rules()
        assert settings.relaxation == 1.0
        assert not trip_rules(settings).penalty_follows_data
