from __future__ import annotations

import numpy as np
import pytest

from kit.adding import Adding
from kit.planted import RANK, planted
from tripheno.exchange.registry import SKETCH_MORE
from tripheno.solver import starts, tournament
from tripheno.solver.acceleration import Momentum, extrapolated
from tripheno.solver.fit import fit
from tripheno.solver.influence import (
    effective_parts,
    effective_patients,
    influence_weights,
    log_lengths,
    slice_norms,
    typical_norm,
)
from tripheno.solver.messages import Lengths, NormalEquations, Totals
from tripheno.solver.method import Exact
from tripheno.solver.settings import SolverSettings
from tripheno.solver.squared import SquaredLoss
from tripheno.solver.stopping import Quiet, Tolerances, kkt_residual, movement
from tripheno.tensor.factors import factor_match_score, unit_columns
from tripheno.vocabulary.axis import Axis


def hospitals(seed=0, modes=3):
    return list(planted(seed, modes).hospitals.values())


def test_another_order_of_codes_permutes_the_rows_of_a_start_and_nothing_else():
    order = [2, 0, 1]
    codes = ("a", "b", "c")
    one = starts.uniform_start([Axis("m", 3, codes)], 4, 7)[0]
    other = starts.uniform_start([Axis("m", 3, tuple(codes[i] for i in order))], 4, 7)[0]
    assert np.allclose(one[order], other, rtol=1e-14)
    assert 0.3 < starts.uniform_rows(Axis("m", 500), 4, 7).mean() < 0.7


def test_the_sketch_of_all_hospitals_is_that_of_the_pooled_co_occurrence():
    parts = hospitals()
    axes = parts[0].axes
    omega = starts.sketch_matrix(axes, RANK, 3)
    dense = planted(0).together.to_tensorly()
    counts = np.hstack([dense.sum(axis=2), dense.sum(axis=1)])
    total = sum(starts.sketch(part, omega) for part in parts)
    assert np.allclose(total, counts.T @ (counts @ omega), rtol=1e-10)
    assert total.shape == (sum(a.size for a in axes), RANK + SKETCH_MORE)


def test_nystrom_is_exact_for_a_co_occurrence_of_low_rank():
    rng = np.random.default_rng(0)
    factor = rng.random((40, 5))
    omega = rng.standard_normal((40, 15))
    root = starts.nystrom(factor @ (factor.T @ omega), omega, 5)
    assert np.allclose(root @ root.T, factor @ factor.T)


def test_a_sketched_start_is_near_what_was_planted():
    adding = Adding(hospitals())
    start = starts.sketched_start(adding.root(RANK, 0), adding.tensors[0].axes, RANK, 0)
    assert factor_match_score(start, planted(0).factors) > 0.6


@pytest.mark.parametrize(
    ("sizes", "rank", "true"), [((6, 5), 10, 11), ((5, 5), 10, 12), ((40, 30), 10, 3)]
)
def test_a_start_does_not_hang_on_the_machine_s_round_off(sizes, rank, true):
    """Few codes or little structure: a random rotation then often has columns below zero."""
    axes = [Axis(f"m{n}", size) for n, size in enumerate(sizes)]
    for seed in range(10):
        rng = np.random.default_rng(seed)
        factor, omega = rng.random((sum(sizes), true)), starts.sketch_matrix(axes, rank, seed)
        total = factor @ (factor.T @ omega)
        other = total * (1.0 + 1e-15 * rng.standard_normal(total.shape))
        for number in range(4):
            here, there = (
                starts.sketched_start(starts.nystrom(one, omega, rank), axes, rank, seed, number)
                for one in (total, other)
            )
            assert max(abs(a - b).max() for a, b in zip(here, there, strict=True)) < 1e-9


@pytest.mark.parametrize(("modes", "count"), [(3, 8), pytest.param(4, 4, marks=pytest.mark.verify)])
def test_the_tournament_of_three_hospitals_is_that_of_pooled_patients_and_reaches_the_best(
    modes, count
):
    parts = hospitals(1, modes)
    apart, together = Adding(parts), Adding([planted(1, modes).together])
    found, quiet = apart.fit(RANK, 0, count)
    pooled, _ = together.fit(RANK, 0, count)
    assert abs(found.objective / pooled.objective - 1.0) < 1e-9
    assert factor_match_score(found.factors, pooled.factors) > 1 - 1e-9
    assert quiet.converged
    singles = [
        together.to_the_end(starts.uniform_start(parts[0].axes, RANK, 99, k), 30)[0].objective
        for k in range(4)
    ]
    assert found.objective <= 1.0025 * min(singles)


def test_one_start_is_no_tournament():
    adding = Adding(hospitals())
    match = tournament.opened(adding.tensors[0].axes, adding.root(RANK, 0), RANK, 0, 1)
    assert match.over
    assert len(match.candidates) == 1


def test_most_votes_go_on_and_a_tie_goes_to_the_lower_index():
    axes = hospitals()[0].axes
    root = Adding(hospitals()).root(RANK, 0)
    match = tournament.opened(axes, root, RANK, 0, 4)
    width = tournament.columns_of(match)
    split = tournament.Votes(np.array([1.0, 0, 2, 1]), np.ones(4), np.ones(width))
    decision = tournament.decided(match, split, 2)
    assert decision.accept.tolist() == [1, 0, 1, 1]
    at_sift = tournament.Tournament(RANK, match.candidates, tournament.SIFT - 1)
    stay = tournament.Votes(np.ones(4), np.array([0.0, 1, 2, 1]), np.ones(width))
    assert tournament.decided(at_sift, stay, 2).stay.tolist() == [1, 1, 1, 0]


@pytest.mark.parametrize("noise", [0.0, 3e-13, -3e-13])
def test_of_starts_that_ended_in_one_optimum_the_first_goes_on_whatever_round_off(noise):
    match = tournament.opened(hospitals()[0].axes, Adding(hospitals()).root(RANK, 0), RANK, 0, 4)
    last = tournament.Tournament(RANK, match.candidates, tournament.FINAL - 1)
    columns = [np.ones(one.width) for one in last.candidates]
    reached = np.array([900.0, 700.0 * (1 + noise), 700.0, 701.0])[: len(columns)]
    assert tournament.votes(last, reached, columns).stay.nonzero()[0].tolist() == [1]
    apart = np.array([900.0, 700.0 * (1 + 1e-6), 700.0, 701.0])[: len(columns)]
    assert tournament.votes(last, apart, columns).stay.nonzero()[0].tolist() == [2]


def test_a_column_s_cost_is_what_the_misfit_grows_by_without_it():
    rng = np.random.default_rng(2)
    patients, first, second = rng.random((7, 3)), rng.random((5, 3)), rng.random((4, 3))
    data = rng.random((7, 5, 4))
    product = np.einsum("abc,ar,br->cr", data, patients, first)
    sums = {"mttkrp": product, "patient_gram": patients.T @ patients}
    costs = SquaredLoss().removal_costs((first, second), 1, sums, second)
    whole = data - np.einsum("ar,br,cr->abc", patients, first, second)
    for r in range(3):
        without = whole + np.einsum("a,b,c->abc", patients[:, r], first[:, r], second[:, r])
        assert costs[r] == pytest.approx((without**2).sum() - (whole**2).sum())


def test_a_step_that_raised_the_objective_is_taken_back_and_the_next_is_shorter():
    rng = np.random.default_rng(0)
    one, two = ((unit_columns(rng.random((4, 2)))[0],) for _ in range(2))
    momentum, point = extrapolated(Momentum(one), one, 5.0, accept=True)
    assert point is one
    further, point = extrapolated(momentum, two, 4.0, accept=True)
    assert movement(two, point) > 0
    assert (point[0] >= 0).all()
    back, point = extrapolated(further, point, 4.5, accept=False)
    assert point is two
    assert back.step < further.step
    assert back.objective == 4.0
    for _ in range(300):
        back, _ = extrapolated(back, two, 4.0, accept=True)
    assert back.step == 1.0  # never further than the last step was long


def test_only_a_run_without_gradient_and_movement_has_converged():
    rng = np.random.default_rng(3)
    root = rng.random((9, 3))
    gram, factor = root.T @ root, unit_columns(rng.random((5, 3)))[0]
    assert kkt_residual(factor, np.zeros_like(factor), factor @ gram) < 1e-14
    assert kkt_residual(factor, 0.5 * factor @ gram, 1.5 * factor @ gram) > 0.3
    quiet, allowed = Quiet(), Tolerances()
    for residual, moved in [(0.1, 0.0), (0.0, 0.1), (0.0, 0.0), (0.1, 0.0), (0.0, 0.0)]:
        quiet = quiet.after(1.0, [residual], moved, allowed)
        assert not quiet.converged
    assert quiet.after(1.0, [0.0], 0.0, allowed).converged


def test_the_bound_is_the_typical_length_over_all_hospitals_and_weights_keep_below_it():
    parts = hospitals()
    sums = np.sum([list(log_lengths(part).arrays().values()) for part in parts], axis=0)
    bound = typical_norm(Lengths(*sums))
    norms = np.concatenate([slice_norms(part) for part in parts])
    typical = np.exp(np.log(norms[norms > 0]).mean())
    assert bound == pytest.approx(typical, rel=0.1)
    assert 0.5 * np.median(norms) < typical < 2.0 * np.median(norms)
    weights = [influence_weights(part, bound) for part in parts]
    lengths = np.sqrt(np.concatenate(weights)) * norms
    assert lengths.max() <= bound * (1 + 1e-12)
    bounded = [part.with_weights(own) for part, own in zip(parts, weights, strict=True)]
    assert Adding(bounded).squared_norm == pytest.approx((lengths**2).sum(), rel=1e-12)
    omega = starts.sketch_matrix(parts[0].axes, RANK, 3)
    assert not np.allclose(starts.sketch(bounded[0], omega), starts.sketch(parts[0], omega))


def test_the_effective_number_of_equal_patients_is_their_number_and_of_one_giant_is_one():
    rows = np.column_stack([np.ones(8), np.r_[1000.0, np.ones(7)]])
    total = effective_parts(rows[:3]) + effective_parts(rows[3:])
    assert effective_patients(total) == pytest.approx([8.0, 1.0], rel=1e-3)


@pytest.mark.parametrize("distinct", [0.02, 0.2])
def test_a_dead_column_does_not_hold_the_others_back(distinct):
    rng = np.random.default_rng(4)
    current = unit_columns(rng.random((14, 4)))[0]
    target = unit_columns(rng.random((14, 4)))[0]
    patients = rng.random((60, 4)) * np.array([9.0, 5.0, 3.0, 0.0])
    other = unit_columns(rng.random((12, 4)))[0]
    gram = patients.T @ patients
    mttkrp = target @ (gram * (other.T @ other))
    settings = SolverSettings(4, "exact", relative_distinctness=distinct)
    method = Exact(settings)
    norm = float(((target.T @ target) * gram * (other.T @ other)).sum())
    state = method.start((current, other), Totals(norm, 100.0, 60.0))
    equations = NormalEquations(mttkrp, gram, np.zeros(6))
    after = method.absorb(state, 0, 0, equations, lambda own: own)
    moved = 1.0 - (after.shared_factors[0] * current).sum(axis=0)
    assert (moved[:3] > 1e-3).all()
    assert np.isfinite(after.shared_factors[0]).all()


def test_a_start_with_surplus_columns_that_won_elsewhere_runs_alone_and_loses_them():
    parts = planted(0)
    rng = np.random.default_rng(2)
    wide = tuple(rng.random((axis.size, 2 * RANK)) for axis in parts.together.axes)
    settings = SolverSettings(RANK, "central", max_iter=12)
    found = fit(parts.hospitals, settings, won=wide)
    assert len(found.weights) == RANK
    assert found.history[-1].objective < 0.6 * found.null_loss
