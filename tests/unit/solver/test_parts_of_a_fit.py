"""Parts of a fit, each asked by itself."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from kit.planted import planted
from tripheno.errors import Diverged, UnknownCodes
from tripheno.evaluation.error import rmse
from tripheno.evaluation.stability import matched
from tripheno.exchange.communicator import in_clear
from tripheno.solver import slopes
from tripheno.solver.distinctness import Distinctness
from tripheno.solver.fit import fit
from tripheno.solver.frozen import FrozenPhenotypes
from tripheno.solver.hospital import HospitalState
from tripheno.solver.local import average_matched, solve_local
from tripheno.solver.loss import Loss
from tripheno.solver.losses import loss_of
from tripheno.solver.penalties import FactorPenalty
from tripheno.solver.settings import SolverSettings
from tripheno.solver.solution import Solution
from tripheno.solver.squared import SquaredLoss
from tripheno.study.evidence import resampled
from tripheno.tensor.count_tensor import CountTensor
from tripheno.vocabulary.axis import Axis

SETTINGS = SolverSettings(3, "exact", tol=1e-7, max_iter=300, starts=1, influence="none")
pytestmark = pytest.mark.filterwarnings("ignore::tripheno.errors.TriphenoWarning")


@pytest.fixture(scope="module")
def solution():
    return fit(planted(0).hospitals, SETTINGS)


def test_a_solution_knows_its_own_shape_and_error(solution):
    assert isinstance(solution, Solution)
    pooled = planted(0).together
    assert solution.shape == pooled.shape
    assert list(solution.by_mode) == [axis.mode for axis in solution.axes]
    assert solution.iterations == len(solution.history) > 0
    rows = loss_of(SETTINGS).fit_patients(pooled, [solution.factors])[0]
    assert rmse(pooled, (rows, *solution.factors)).nonzeros == pytest.approx(
        solution.rmse.nonzeros, rel=1e-4
    )


def test_what_is_held_out_is_measured_on_unseen_codes_alone(solution):
    whole = planted(0).together
    seen = np.arange(whole.shape[-1]) % 2 == 0
    unseen = ~seen[whole.cells.indices[:, -1]]
    counts = whole.cells.values[unseen].astype(float)
    _, norm = loss_of(SETTINGS).held_out(whole, solution.factors, seen)
    assert norm == pytest.approx(float((counts**2).sum()), rel=1e-12)


@pytest.mark.parametrize(
    "more",
    [{}, {"starts": 4}, {"method": "trip", "starts": 4}, {"loss": "poisson"}],
    ids=["one start", "tournament", "trip", "poisson"],
)
def test_an_error_that_is_tracked_is_there_at_every_iteration_and_ends_as_the_result_s(more):
    asked = replace(SETTINGS, influence="bounded", max_iter=80, track_rmse=True, **more)
    found = fit(planted(0).hospitals, asked)
    assert all(line.rmse is not None for line in found.history)
    assert found.history[-1].rmse == pytest.approx(found.rmse.nonzeros, rel=1e-3)
    silent = fit(planted(0).hospitals, replace(asked, track_rmse=False))
    assert all(line.rmse is None for line in silent.history)
    assert silent.objective == found.objective


def test_the_same_solution_matches_itself_and_another_does_not(solution):
    assert matched(solution, [solution, solution]) == pytest.approx(np.ones(3))
    other = fit(planted(1).hospitals, SETTINGS)
    assert matched(solution, [other]).min() < 0.99


def test_both_losses_are_losses_and_squares_are_the_default():
    losses = {name: loss_of(SolverSettings(loss=name)) for name in ("squared", "poisson")}
    assert all(isinstance(one, Loss) for one in losses.values())
    assert type(loss_of(SolverSettings())) is type(losses["squared"])
    assert type(losses["poisson"]) is not type(losses["squared"])


def test_the_end_of_a_fit_is_flat_and_its_beginning_is_not(solution):
    rng = np.random.default_rng(0)
    start = tuple(rng.random(factor.shape) for factor in solution.factors)
    start = tuple(factor / np.linalg.norm(factor, axis=0) for factor in start)
    steep = {}
    for name, factors in {"start": start, "end": solution.factors}.items():
        parts = [
            slopes.slopes(HospitalState(tensor, SETTINGS), factors)[1]
            for tensor in planted(0).hospitals.values()
        ]
        total = slopes.Slopes(
            tuple(map(sum, zip(*(p.gradient for p in parts), strict=True))),
            tuple(map(sum, zip(*(p.pull for p in parts), strict=True))),
        )
        steep[name] = slopes.steepest(factors, total, [FactorPenalty()] * len(factors))
    assert steep["end"] < 0.05 * steep["start"]


def test_a_run_on_a_slope_is_asked_again_after_half_as_many_iterations():
    assert [slopes.patience(n) for n in (1, 10, 41)] == [0, 5, 20]


def test_everybody_s_weight_one_gives_the_model_back(solution):
    tensors = planted(0).hospitals
    drawn = {name: np.ones((tensor.patients, 2)) for name, tensor in tensors.items()}
    models, others = resampled(in_clear(tensors), tensors, solution, drawn)
    assert others == ()  # of one start
    for model in models:
        for mine, theirs in zip(model, solution.factors, strict=True):
            assert mine == pytest.approx(theirs, abs=2e-2)


def test_the_average_of_one_model_is_itself_and_local_keeps_its_own(solution):
    same = average_matched({"a": solution.factors, "b": solution.factors})
    for mine, theirs in zip(same, solution.factors, strict=True):
        assert np.abs(mine / np.linalg.norm(mine, axis=0) - theirs).max() < 1e-9
    found = solve_local(planted(0).hospitals, SETTINGS)
    assert set(found.own) == set(planted(0).hospitals)


def test_frozen_phenotypes_score_patients_and_refuse_other_codes():
    axes = (Axis("medication", 2, ("m0", "m1")), Axis("diagnosis", 2, ("d0", "d1")))
    frozen = FrozenPhenotypes(axes, (np.eye(2), np.eye(2)), SquaredLoss())
    cells = np.array([[0, 0, 0], [1, 1, 1]])
    own = CountTensor.from_cells(cells, [3, 5], axes=axes)
    assert frozen.memberships(own) == pytest.approx(np.array([[3.0, 0.0], [0.0, 5.0]]))
    assert frozen.n_components == 2
    others = (Axis("medication", 2, ("x", "y")), axes[1])
    with pytest.raises(UnknownCodes, match="medication"):
        frozen.unknown_codes(CountTensor.from_cells(cells, [3, 5], axes=others))


def test_factors_of_trip_with_distinctness_have_no_negative_entry():
    settings = replace(SETTINGS, method="trip", relative_distinctness=0.1, max_iter=15)
    found = fit(planted(0).hospitals, settings)
    assert min(factor.min() for factor in found.factors) >= 0.0
    target = np.random.default_rng(0).standard_normal((6, 3))
    found = Distinctness(2.5).apart(np.eye(3), target, np.abs(target), 5.0, nonnegative=True)
    assert found.min() == 0.0
    plain = FactorPenalty().minimise(np.diag([1.0, 2.0]), np.array([[-3.0, 4.0]]))
    assert plain.tolist() == [[0.0, 2.0]]


def test_an_objective_beyond_every_fit_is_a_divergence(monkeypatch):
    monkeypatch.setattr("tripheno.solver.loop.RUNAWAY", 1e-6)
    with pytest.raises(Diverged, match="grew without bound"):
        fit(planted(0).hospitals, replace(SETTINGS, method="trip", max_iter=5))
