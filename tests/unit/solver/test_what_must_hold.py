"""Every line under "What must hold" of the mathematics, on a part of the grid.

`make verify` walks the whole grid with the same functions.
"""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest

from kit.planted import RANK, planted
from tripheno.errors import Diverged, NotConverged, PaperVariant
from tripheno.evaluation.comparison import compare, share_out
from tripheno.evaluation.recovery import recovery
from tripheno.solver.federated import solve_federated
from tripheno.solver.fit import fit
from tripheno.solver.settings import SolverSettings
from tripheno.solver.starts import first_factors
from tripheno.tensor.count_tensor import CountTensor

pytestmark = pytest.mark.filterwarnings("ignore::tripheno.errors.TriphenoWarning")

PART = [(0, 1, None, 3), (1, 3, 0.9, 3), (2, 5, None, 4), (3, 20, 0.7, 3), (4, 2, 0.5, 4)]
GRID = [
    (seed, hospitals, skew, modes)
    for seed in (10, 11, 12)
    for hospitals in (1, 2, 3, 5, 10, 20)
    for skew in ((None,) if hospitals == 1 else (1 / 3, 0.5, 0.7, 0.9))
    for modes in (3, 4)
]
CONSTRAINTS = ("nonnegative", "none")


def on_the_grid(test):
    """The part in `make test`, the whole in `make verify`."""
    whole = [pytest.param(*case, marks=pytest.mark.verify) for case in GRID]
    return pytest.mark.parametrize(("seed", "hospitals", "skew", "modes"), [*PART, *whole])(test)


def federation(seed, hospitals, skew, modes):
    return share_out(planted(seed, modes).together, hospitals, skew, np.random.default_rng(seed))


def relative(a, b):
    return abs(a - b) / abs(b)


@pytest.mark.parametrize("constraint", CONSTRAINTS)
@on_the_grid
def test_exact_equals_central_to_round_off(seed, hospitals, skew, modes, constraint):
    tensors = federation(seed, hospitals, skew, modes)
    settings = SolverSettings(RANK, "central", constraint=constraint, seed=seed)
    central = fit(tensors, settings)
    exact = fit(tensors, replace(settings, method="exact"))
    assert exact.iterations == central.iterations
    assert relative(exact.objective, central.objective) < 1e-9
    for ours, theirs in zip(exact.rmse, central.rmse, strict=True):
        assert relative(ours, theirs) < 1e-9
    for ours, theirs in zip(exact.factors, central.factors, strict=True):
        assert np.abs(ours - theirs).max() < 1e-9
    assert np.abs(exact.weights / central.weights - 1).max() < 1e-9


@pytest.mark.parametrize("constraint", CONSTRAINTS)
@on_the_grid
def test_trip_comes_as_close_to_central_as_the_seed_at_its_worst(
    seed, hospitals, skew, modes, constraint
):
    # one step a mode follows central from where a few iterations lead; from a random start it may
    # end in another optimum
    tensors = federation(seed, hospitals, skew, modes)
    settings = SolverSettings(RANK, "central", constraint=constraint, seed=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConverged)
        start = fit(tensors, replace(settings, method="exact", max_iter=5)).factors
    central = solve_federated(tensors, settings, start=start)
    trip = solve_federated(tensors, replace(settings, method="trip"), start=start)
    gap, fms = compare(trip, central)
    assert abs(gap) <= 0.0006
    assert fms >= 0.95


@pytest.mark.parametrize("constraint", ["nonnegative", "none", "sparse"])
@pytest.mark.parametrize("method", ["central", "exact"])
@pytest.mark.parametrize("distinctness", [0.0, 0.05])
def test_the_objective_of_exact_and_central_never_rises(method, constraint, distinctness):
    tensors = federation(5, 3, 0.5, 3)
    settings = SolverSettings(
        RANK,
        method,
        constraint=constraint,
        relative_distinctness=distinctness,
        max_iter=40,
        starts=1,
    )
    objective = np.array([line.objective for line in fit(tensors, settings).history])
    assert len(objective) > 3
    assert (np.diff(objective) <= 1e-12 * objective[:-1]).all()


@pytest.mark.parametrize("constraint", CONSTRAINTS)
def test_the_residuals_of_trip_go_to_zero(constraint):
    tensors = federation(6, 5, 0.7, 3)
    settings = SolverSettings(RANK, "trip", constraint=constraint, tol=1e-15, max_iter=400)
    history = fit(tensors, settings).history
    third = len(history) // 3
    for residuals in ([line.primal for line in history], [line.dual for line in history]):
        early, middle, late = (max(residuals[n * third : (n + 1) * third]) for n in range(3))
        assert late < min(early, middle)
        assert residuals[-1] < 1e-2 * early


def test_local_is_worse_than_both_where_hospitals_differ():
    for seed in (0, 1, 2):
        tensors = planted(seed).hospitals
        settings = SolverSettings(RANK, "central", influence="none")
        central, trip, exact, local = (
            fit(tensors, replace(settings, method=m)) for m in ("central", "trip", "exact", "local")
        )
        worst = max(trip.rmse.nonzeros, exact.rmse.nonzeros)
        assert local.rmse.nonzeros > 1.001 * worst
        assert compare(local, central).fms < compare(trip, central).fms


@pytest.mark.parametrize("method", ["trip", "exact", "central"])
@pytest.mark.parametrize("modes", [3, 4])
def test_planted_phenotypes_are_found_again(method, modes):
    truth = planted(7, modes)
    found = fit(truth.hospitals, SolverSettings(RANK, method))
    pairs = zip(found.axes, truth.factors, strict=True)
    recovered = recovery(list(truth.names), {a.mode: f for a, f in pairs}, found.by_mode)
    assert all(phenotype.found for phenotype in recovered)
    assert len({phenotype.component for phenotype in recovered}) == RANK


@pytest.mark.parametrize("method", ["trip", "exact", "local"])
def test_the_order_of_hospitals_does_not_matter(method):
    tensors = planted(8).hospitals
    turned = dict(reversed(tensors.items()))
    settings = SolverSettings(RANK, method)
    one, other = fit(tensors, settings), fit(turned, settings)
    assert relative(other.objective, one.objective) < 1e-9
    for ours, theirs in zip(one.factors, other.factors, strict=True):
        assert np.abs(ours - theirs).max() < 1e-7


@pytest.mark.parametrize("method", ["trip", "exact", "local"])
@pytest.mark.parametrize("constraint", CONSTRAINTS)
def test_a_hospital_whose_patients_have_no_cell_changes_nothing(method, constraint):
    tensors = dict(planted(8).hospitals)
    axes = next(iter(tensors.values())).axes
    one = CountTensor.from_cells([[0, 0, 0]], [1], shape=(5, *(axis.size for axis in axes)))
    none = replace(one.select_patients(np.arange(1, 5)), axes=axes)
    settings = SolverSettings(RANK, method, constraint=constraint)
    without, beside = fit(tensors, settings), fit({**tensors, "empty": none}, settings)
    assert relative(beside.rmse.nonzeros, without.rmse.nonzeros) < 1e-6
    assert compare(beside, without).fms > 0.9999


def permuted(tensor, orders):
    indices, values = tensor.coordinates()
    for n, order in enumerate(orders):
        indices[:, n + 1] = np.argsort(order)[indices[:, n + 1]]
    return CountTensor.from_cells(indices, values, shape=tensor.shape)


@pytest.mark.parametrize("method", ["trip", "exact", "central"])
def test_a_permuted_code_order_permutes_the_factors_only(method):
    tensors = planted(9).hospitals
    sizes = next(iter(tensors.values())).shape[1:]
    rng = np.random.default_rng(9)
    orders = [rng.permutation(size) for size in sizes]
    turned_tensors = {name: permuted(tensor, orders) for name, tensor in tensors.items()}
    settings = SolverSettings(RANK, method)
    start = first_factors(next(iter(tensors.values())).axes, settings)
    turned = tuple(factor[order] for factor, order in zip(start, orders, strict=True))
    one = solve_federated(tensors, settings, start=start)
    other = solve_federated(turned_tensors, settings, start=turned)
    assert relative(other.objective, one.objective) < 1e-9
    for ours, theirs, order in zip(one.factors, other.factors, orders, strict=True):
        assert np.abs(ours[order] - theirs).max() < 1e-7


def test_the_printed_equations_diverge_when_the_multiplier_does_not_start_at_zero():
    """Erratum 2: with Y₀ ≠ 0 the printed B makes Y double at every step."""
    tensors = federation(1, 3, None, 3)
    printed = SolverSettings(
        RANK, "trip", variant="printed", constraint="none", consensus_penalty=50.0,
        split_penalty=1.0, distinctness=1e-2, split_dual_start=1e-6, max_iter=100,
    )  # fmt: skip
    with pytest.raises(Diverged, match="grew without bound") as caught:
        fit(tensors, printed)
    iterations = int(str(caught.value).split("after ")[1].split()[0])
    assert 25 < iterations < 75
    corrected = replace(printed, variant="corrected", consensus_penalty=None, split_penalty=None)
    found = fit(tensors, corrected)
    central = fit(tensors, replace(corrected, method="central"))
    assert relative(found.objective, central.objective) < 0.01


def test_the_printed_equations_do_nothing_for_distinctness_when_it_starts_at_zero():
    """Erratum 2, the other half: with Y₀ = 0, B is the last A and Y stays 0; it runs, and warns."""
    tensors = federation(1, 3, None, 3)
    printed = SolverSettings(
        RANK, "trip", variant="printed", constraint="none", consensus_penalty=50.0,
        split_penalty=1.0, distinctness=1e-2, max_iter=30,
    )  # fmt: skip
    with pytest.warns(PaperVariant):
        found = fit(tensors, printed)
    assert np.isfinite(found.objective)


def test_the_released_settings_run_their_hundred_iterations_with_a_bias():
    tensors = federation(2, 3, None, 3)
    settings = SolverSettings(
        RANK, "trip", variant="released", constraint="none", distinctness=1e-2, max_iter=100
    )
    with pytest.warns(PaperVariant):
        found = fit(tensors, settings)
    assert found.iterations == 100
    assert found.bias is not None
    assert found.factors[0].shape[1] == RANK
    central = fit(tensors, replace(settings, method="central", variant="corrected", bias=True))
    assert found.rmse.nonzeros < 1.2 * central.rmse.nonzeros


def test_a_run_that_reaches_its_limit_says_so():
    tensors = federation(0, 3, None, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error", NotConverged)
        with pytest.raises(NotConverged, match="limit of 3 iterations"):
            fit(tensors, SolverSettings(RANK, "trip", max_iter=3))


def test_a_tournament_ends_no_higher_than_single_starts_and_reports_how_finalists_agree():
    tensors = federation(3, 3, None, 3)
    settings = SolverSettings(RANK, "exact", tol=1e-9)
    best = fit(tensors, settings)
    alone = [fit(tensors, replace(settings, starts=1, seed=s)).objective for s in range(4)]
    assert best.objective <= (1 + 1e-6) * min(alone)
    assert len(best.restart_match) == len(best.finalists) > 1
    assert all(0 <= match <= 1 for match in best.restart_match)
