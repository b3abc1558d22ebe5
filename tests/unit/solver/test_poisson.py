"""Poisson loss as a study runs it: federated as pooled, from many starts, refused where unknown."""

from __future__ import annotations

import contextlib
import io
import warnings
from dataclasses import replace

import numpy as np
import pytest

from tripheno.errors import BadProtocol, EmptyComponent, SettingsError
from tripheno.exchange.communicator import in_clear
from tripheno.exchange.registry import messages_of
from tripheno.protocol.agreed import read_protocol
from tripheno.solver import hospital, poisson, tournament
from tripheno.solver.checkpoints import tournament_arrays, tournament_of
from tripheno.solver.fit import fit
from tripheno.solver.loop import Members
from tripheno.solver.poisson import PoissonLoss
from tripheno.solver.settings import SolverSettings
from tripheno.solver.starts import first_factors
from tripheno.solver.tournament_run import TournamentState, run_tournament
from tripheno.study.evidence import choose_rank
from tripheno.study.makers import Maker
from tripheno.study.message_plan import declare_all, plan_of
from tripheno.tensor import reference
from tripheno.tensor.count_tensor import CountTensor
from tripheno.tensor.factors import unit_columns

POISSON = SolverSettings(3, "exact", loss="poisson", starts=1, max_iter=60)


def counts(seed, shape=(30, 8, 7), rank=3):
    rng = np.random.default_rng(seed)
    parts = [rng.gamma(0.5, 1.5, (size, rank)) for size in shape]
    found = rng.poisson(np.einsum("ar,br,cr->abc", *parts))
    cells = np.argwhere(found)
    return CountTensor.from_cells(cells, found[tuple(cells.T)], shape=shape)


def dealt(tensor, hospitals=3):
    rows = np.array_split(np.arange(tensor.patients), hospitals)
    return {f"h{k}": tensor.select_patients(own) for k, own in enumerate(rows)}


@pytest.mark.parametrize("starts", [1, 8])
@pytest.mark.parametrize("influence", ["bounded", "none"])
def test_exact_equals_central_under_blind_sums(starts, influence):
    tensors = dealt(counts(0))
    asked = replace(POISSON, starts=starts, influence=influence, max_iter=25)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exact = fit(tensors, asked, Maker("blind", 1)(tuple(tensors)))
        central = fit(tensors, replace(asked, method="central"))
    assert exact.objective == pytest.approx(central.objective, rel=1e-9)
    assert exact.rmse == pytest.approx(central.rmse, rel=1e-9)
    for one, other in zip(exact.factors, central.factors, strict=True):
        assert np.abs(one - other).max() <= 1e-9


def test_a_patients_row_is_at_rest_after_a_few_steps(monkeypatch):
    tensor, rng = counts(7, (60, 12, 10), 4), np.random.default_rng(7)
    model = tuple(unit_columns(rng.gamma(0.3, 1.0, (size, 8)))[0] for size in (12, 10))
    (whole,) = PoissonLoss().fit_patients(tensor, [model])
    assert (whole <= 1e-9 * whole.max(axis=1, keepdims=True)).any()  # some end at zero
    monkeypatch.setattr(poisson, "MOST_STEPS", 12)
    (few,) = PoissonLoss().fit_patients(tensor, [model])
    assert np.array_equal(few, whole)


def test_a_race_that_was_kept_goes_on_as_if_it_had_never_stopped():
    tensors = dealt(counts(1))
    members = Members.of(in_clear(tensors), tensors, POISSON)
    axes = next(iter(tensors.values())).axes
    start = first_factors(axes, POISSON)
    totals, _ = members.sum("totals", hospital.begin, start)
    kept = []
    whole = run_tournament(
        members, TournamentState(tournament.alone(3, start)), totals, POISSON, keep=kept.append
    )
    assert whole.quiet.converged
    middle = tournament_of(tournament_arrays(kept[6]))
    again = run_tournament(members, middle, totals, POISSON)
    assert len(again.history) == len(whole.history)
    assert again.objective == pytest.approx(whole.objective, rel=1e-9)
    for one, other in zip(whole.factors, again.factors, strict=True):
        assert np.abs(one - other).max() <= 1e-7


def divergence(dense, factors):
    mean = reference.model(factors)
    filled = dense > 0
    logs = dense[filled] * np.log(dense[filled] / mean[filled])
    return float(mean.sum() - dense.sum() + logs.sum())


@pytest.mark.parametrize(
    "seed", [3, *(pytest.param(n, marks=pytest.mark.verify) for n in (2, 4, 6))]
)
def test_the_best_of_a_few_starts_equals_or_beats_the_best_of_cp_apr(seed):
    pyttb = pytest.importorskip("pyttb")
    tensor = counts(seed, (20, 7, 6))
    dense = tensor.to_tensorly()
    indices, values = tensor.coordinates()
    theirs = []
    for start in range(3):
        rng = np.random.default_rng([seed, start])
        first = pyttb.ktensor([rng.random((size, 3)) for size in tensor.shape])
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            sparse = pyttb.sptensor(indices, values.astype(float)[:, None], tensor.shape)
            model, _, _ = pyttb.cp_apr(
                sparse, 3, init=first, maxiters=200, stoptol=1e-5, printitn=0, printinneritn=0
            )
        weighted = [model.factor_matrices[0] * model.weights, *model.factor_matrices[1:]]
        theirs.append(divergence(dense, weighted))
    ours = []
    for start in range(3):
        asked = replace(POISSON, seed=start, influence="none", tol=1e-8, max_iter=200)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ours.append(fit({"all": tensor}, asked).objective)
    assert min(ours) <= min(theirs) * (1.0 + 1e-4)


def test_the_objective_told_is_the_divergence_of_the_model():
    tensor = counts(4)
    found = fit({"all": tensor}, replace(POISSON, influence="none"))
    patients = found.patient_factors["all"]
    assert found.objective == pytest.approx(
        divergence(tensor.to_tensorly(), [patients, *found.factors]), rel=1e-6
    )
    assert found.objective < found.null_loss == pytest.approx(PoissonLoss().null(tensor))


def test_ranks_are_weighed_by_the_same_loss():
    tensors = dealt(counts(5, (60, 8, 7)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        choice = choose_rank(tensors, [1, 3], replace(POISSON, max_iter=15))
    errors = [one.held_out_error for one in choice.evidence]
    assert all(0.0 < error < 1.0 for error in errors)
    assert errors[1] < errors[0]


@pytest.mark.parametrize("starts", [1, 16])
def test_its_message_stands_in_the_plan_and_those_of_squares_do_not(starts):
    declare_all()
    plan = plan_of(replace(POISSON, starts=starts), ("a", "b"), 3, resamples=4)
    names = {one.name for one in messages_of(plan)}
    assert "poisson-models" in names
    assert not names & {"models", "normal-equations"}


@pytest.mark.parametrize(
    "more",
    [
        {"method": "trip"},
        {"method": "local"},
        {"bias": True},
        {"constraint": "sparse"},
        {"constraint": "none"},
        {"relative_distinctness": 0.1},
        {"precision": "single"},
    ],
    ids=lambda more: next(iter(more)),
)
def test_what_it_cannot_be_asked_with_is_refused_before_anything_runs(more):
    with pytest.raises(SettingsError, match="loss poisson"):
        replace(POISSON, **more)


def test_a_protocol_says_the_line_of_a_loss_that_does_not_go_with_the_rest(tmp_path):
    path = tmp_path / "federation.toml"
    path.write_text('[study]\nname = "s"\n\n[model]\nbias = true\nloss = "poisson"\n')
    with pytest.raises(BadProtocol, match=r"6.*loss poisson does not go with a bias"):
        read_protocol(path)


@pytest.mark.parametrize("loss", ["squared", "poisson"])
@pytest.mark.parametrize("rank", [1, 2])
@pytest.mark.filterwarnings("ignore::tripheno.errors.SingularGram")  # two for one
def test_data_that_a_model_fits_exactly_end_converged(loss, rank):
    """Every cell alike: one component says all, a second wanders, and nothing is left to lose."""
    cells = np.argwhere(np.ones((40, 4, 4)))
    alike = CountTensor.from_cells(cells, np.ones(len(cells), dtype=int))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EmptyComponent)
        found = fit(dealt(alike), SolverSettings(rank, "exact", loss=loss, starts=4))
    assert found.converged, found.stopped_because
    assert found.objective <= 1e-3 * found.null_loss
    assert np.isfinite(found.objective)
