"""A loss that nobody but its own file knows runs a whole study: no other file assumes one."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest

from kit.planted import planted
from tripheno.errors import NotConverged, SettingsError
from tripheno.evaluation.claims import hospitals_differ, own_likeness
from tripheno.evaluation.membership import LEAST_SHARE, expected_counts, members
from tripheno.exchange.communicator import in_clear
from tripheno.solver import losses, settings
from tripheno.solver.fit import fit
from tripheno.solver.poisson import PoissonLoss
from tripheno.solver.squared import SquaredLoss
from tripheno.study.evidence import choose_rank, seeded_generators, weigh
from tripheno.tensor.count_tensor import pooled
from tripheno.tensor.factors import unit_columns
from tripheno.testing.loss_contract import LossContract, small_counts

LOSSES = (PoissonLoss, SquaredLoss)
SQUARED = settings.SolverSettings(4, "exact", starts=4, max_iter=20)


class HalvedLoss(SquaredLoss):
    """½‖X − O‖² under a name of its own: all that is found must be what the squared loss finds."""

    def null(self, tensor):
        return 0.5 * super().null(tensor)

    def sums(self, total, widths, null):
        return [{**one, "null": 2.0 * one["null"]} for one in super().sums(total, widths, null)]

    def reached(self, model, n, sums, factor):
        return 0.5 * super().reached(model, n, sums, factor)

    def gradient(self, model, n, sums):
        return 0.5 * super().gradient(model, n, sums)

    def pull(self, model, n, sums):
        return 0.5 * super().pull(model, n, sums)

    def curvature(self, model, n, sums, move):
        return 0.5 * super().curvature(model, n, sums, move)

    def removal_costs(self, model, n, sums, factor):
        return 0.5 * super().removal_costs(model, n, sums, factor)

    def held_out(self, tensor, factors, seen):
        error, norm = super().held_out(tensor, factors, seen)
        return 0.5 * error, 0.5 * norm


@pytest.fixture
def halved(monkeypatch):
    monkeypatch.setitem(losses.BY_NAME, "halved", lambda _settings: HalvedLoss())
    monkeypatch.setitem(settings.CHOICES, "loss", (*settings.LOSSES, "halved"))
    return replace(SQUARED, loss="halved")


class TestHalved(LossContract):
    loss = HalvedLoss()


def test_a_study_with_it_is_that_of_squares(halved):
    tensors = planted(0).hospitals
    one, other = (fit(tensors, asked) for asked in (SQUARED, halved))
    assert other.objective == pytest.approx(0.5 * one.objective, rel=1e-9)
    assert other.rmse == pytest.approx(one.rmse, rel=1e-9)
    for mine, theirs in zip(one.factors, other.factors, strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-9)
    asked = {"generators": seeded_generators(0), "resamples": 4, "fewest": 11}
    known, found = (weigh(in_clear(tensors), tensors, each, **asked) for each in (one, other))
    assert found.carriers == known.carriers
    assert [grade.grade for grade in found.grades] == [grade.grade for grade in known.grades]
    assert hospitals_differ(tensors, other).tolist() == hospitals_differ(tensors, one).tolist()


def test_a_rank_is_chosen_with_it_as_with_squares(halved):
    tensors = planted(0).hospitals
    one, other = (choose_rank(tensors, [2, 4], asked) for asked in (SQUARED, halved))
    assert other.recommendation == one.recommendation
    for mine, theirs in zip(one.evidence, other.evidence, strict=True):
        assert theirs.held_out_error == pytest.approx(mine.held_out_error, rel=1e-6)


@pytest.mark.parametrize("more", [{"method": "trip"}, {"constraint": "sparse"}, {"bias": True}])
def test_what_knows_squares_alone_is_refused_with_it(halved, more):
    with pytest.raises(SettingsError, match="loss halved"):
        replace(halved, **more)


def test_who_has_a_phenotype_is_asked_of_the_loss_that_found_it():
    """Rows by least squares give a Poisson model's patients other shares, and other owners."""
    tensor = small_counts()
    factors = tuple(np.ascontiguousarray(f) for f in planted_in(tensor))
    (rows,) = PoissonLoss().fit_patients(tensor, [factors])
    (others,) = SquaredLoss().fit_patients(tensor, [factors])
    expected = expected_counts(rows, factors)
    noticeable = expected > LEAST_SHARE * expected.sum(axis=1, keepdims=True)
    having = members(tensor, factors, PoissonLoss(), alpha=1.0)
    assert np.array_equal(having, noticeable)
    assert not np.array_equal(having, members(tensor, factors, SquaredLoss(), alpha=1.0))
    assert not np.allclose(rows, others)


def test_a_hospital_with_all_patients_has_the_model_of_all_whatever_the_loss():
    tensors = planted(0).hospitals
    asked = replace(SQUARED, loss="poisson", max_iter=60)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConverged)
        found = fit(tensors, replace(asked, influence="none"))
    whole = pooled(list(tensors.values()))
    everybody = np.zeros(whole.patients, dtype=int)
    by = {one: own_likeness(whole, found.factors, everybody, one()) for one in LOSSES}
    assert by[PoissonLoss].min() >= 0.999
    assert by[SquaredLoss].min() < 0.99


def planted_in(tensor):
    rng = np.random.default_rng(5)
    return [unit_columns(rng.random((axis.size, 3)))[0] for axis in tensor.axes]
