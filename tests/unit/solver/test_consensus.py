"""The server's half of the consensus: residuals of a step, and how c follows them."""

import numpy as np
import pytest

from tripheno.solver.messages import Proposal, Totals
from tripheno.solver.settings import SolverSettings
from tripheno.solver.trip import BALANCE_RANGE, TripServer, trip_rules

RANK = 2


def begun(**more):
    server = TripServer(SolverSettings(RANK, constraint="none", **more))
    factors = (np.eye(3)[:, :RANK], np.eye(4)[:, :RANK])
    return server, server.start(factors, Totals(100.0, 10.0, 5.0))


def proposed(wanted, omega):
    """What hospitals send when all want the same factor."""
    penalty = np.stack([omega, omega**2])
    return Proposal(wanted * omega, penalty, np.zeros(6))


def test_the_dual_residual_is_that_of_the_last_step_in_the_units_of_the_multipliers():
    server, state = begun(inner_steps=2)
    omega = np.array([2.0, 5.0])
    first, second = np.eye(3)[:, :RANK] * 3.0, np.eye(3)[:, :RANK] * 4.0
    state = server.absorb(state, 0, 0, proposed(first, omega))
    assert not state.settled
    assert state.dual_residual[0] == pytest.approx(2.0**2 * (2.0**2 + 5.0**2))
    while not state.settled:
        before = state.shared_factors[0]
        state = server.absorb(state, 0, 1, proposed(second, omega))
    # at rest the columns, four long, give their length to patients and multipliers
    assert np.allclose(np.linalg.norm(state.shared_factors[0], axis=0), 1.0)
    step = (second - before) * 4.0 * omega
    assert state.dual_residual[0] == pytest.approx(float((step**2).sum()))


@pytest.mark.parametrize("given", [None, 7.0])
@pytest.mark.parametrize(("primal", "dual", "bound"), [(1.0, 1e-9, 4.0), (0.0, 1.0, 0.25)])
def test_the_penalty_follows_the_residuals_within_a_range(given, primal, dual, bound):
    server, state = begun(consensus_penalty=given)
    first = state.penalty
    assert first == (server.settings.penalty_scale if given is None else given)
    state = server.end_iteration(state, primal, dual)
    assert state.penalty == first * (2.0 if bound > 1 else 0.5)
    for _ in range(60):
        state = server.end_iteration(state, primal, dual)
    assert state.penalty == pytest.approx(bound * first)
    assert bound in (BALANCE_RANGE, 1 / BALANCE_RANGE)


def test_balanced_residuals_leave_the_penalty_alone_and_so_does_the_time_after():
    server, state = begun(balance_until=3)
    for primal, dual in ((1.0, 0.2), (0.2, 1.0), (1.0, 1.0), (1.0, 1e-9)):
        state = server.end_iteration(state, primal, dual)
    assert state.penalty == server.settings.penalty_scale


def test_steps_are_lengthened_in_the_corrected_variant_alone():
    assert SolverSettings(RANK).relaxation == 1.6
    given = {"consensus_penalty": 1.0, "split_penalty": 1.0}
    for variant in ("printed", "released"):
        settings = SolverSettings(RANK, variant=variant, **given).with_variant_rules()
        assert settings.relaxation == 1.0
        assert not trip_rules(settings).penalty_follows_data
