from __future__ import annotations

import warnings
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from kit.adding import Adding
from kit.planted import RANK, planted
from tripheno.errors import SettingsError, TriphenoWarning
from tripheno.evaluation.claims import SPLITS, hospitals_differ, origin_claims, own_likeness
from tripheno.evaluation.grades import Likeness, graded, likeness
from tripheno.evaluation.intervals import (
    bootstrap_weights,
    code_intervals,
    percentile_interval,
    prevalence_interval,
    shares,
)
from tripheno.evaluation.membership import chance, counted, members
from tripheno.exchange.communicator import in_clear
from tripheno.privacy.audit import AuditBuffer
from tripheno.protocol.agreed import MOST_RESAMPLES
from tripheno.solver.fit import fit
from tripheno.solver.influence import effective_parts, effective_patients
from tripheno.solver.settings import SolverSettings
from tripheno.solver.squared import SquaredLoss
from tripheno.solver.stacked import fit_patients
from tripheno.study.evidence import home_generators, seeded_generators, weigh
from tripheno.study.makers import Maker
from tripheno.study.message_plan import simulated_gatekeepers
from tripheno.tensor.count_tensor import CountTensor, pooled
from tripheno.tensor.factors import match_components, unit_columns


def mixture(seed, patients=150, rank=3, sample=0):
    """Patients with one phenotype each, clear ones; the truth and who has what."""
    rng = np.random.default_rng(seed)
    first, second = (rng.dirichlet(np.full(size, 0.3), rank).T for size in (14, 12))
    rng = np.random.default_rng([seed, sample])
    has = np.arange(patients) % rank
    amount = 30.0 * rng.gamma(4.0, 0.25, patients)
    mean = np.einsum("i,ji,ki->ijk", amount, first[:, has], second[:, has])
    counts = rng.poisson(mean)
    cells = np.argwhere(counts)
    tensor = CountTensor.from_cells(cells, counts[tuple(cells.T)], shape=counts.shape)
    truth = tuple(unit_columns(factor)[0] for factor in (first, second))
    return tensor, truth, has


def replicate_models(tensor, factors, weights):
    """Fits from the finished model under every column of weights, side by side."""
    resampled = Adding([tensor], [weights])
    models = [factors] * weights.shape[1]
    for _ in range(12):
        models, _, _ = resampled.iteration(models)
    return models


def test_both_resamples_and_finalists_must_have_a_stable_phenotype_and_enough_patients():
    resampled = np.array([[0.95, 0.95, 0.75, 0.3, 0.95]] * 9 + [[0.1, 0.95, 0.7, 0.3, 0.95]])
    finalists = np.array([[1.0, 0.8, 1.0, 1.0, 1.0], [0.97, 0.91, 1.0, 1.0, 0.99]])
    enough = np.array([50.0, 50, 50, 50, 3])
    result = graded(Likeness.of(resampled, finalists), enough, 11)
    assert [one.grade for one in result] == ["stable", "partly", "partly", "unstable", "partly"]
    assert [one.named for one in result] == [True] * 4 + [False]
    nothing = Likeness.of(np.zeros((0, 1)), finalists[:, :1])
    assert graded(nothing, enough[:1], 11)[0].grade == "unstable"
    alone = graded(Likeness.of(resampled, finalists[:0]), np.full(5, 50.0), 11)
    assert [one.grade for one in alone] == ["partly", "partly", "partly", "unstable", "partly"]
    assert {one.finalists for one in alone} == {None}


def test_weights_come_from_the_secret_and_are_never_whole_numbers():
    generators = home_generators({"a": b"secret", "b": b"another"})
    one, again = (bootstrap_weights(generators("a", "resamples"), 50, 4) for _ in range(2))
    assert np.array_equal(one, again)
    assert not np.array_equal(one, bootstrap_weights(generators("b", "resamples"), 50, 4))
    assert (one != np.round(one)).all()
    assert bootstrap_weights(generators("a", "resamples"), 50, 0).shape == (50, 0)
    with pytest.raises(SettingsError):
        bootstrap_weights(generators("a", "resamples"), 50, MOST_RESAMPLES + 1)


def coverage(seeds, patients=120, replicates=40):
    """How many intervals hold the weight that far more patients of the same kind give.

    Not the planted weight: least squares on counts leans to frequent codes, however many patients
    there are, and resampling patients cannot show that.
    """
    held = asked = 0
    for seed in seeds:
        tensor, planted_factors, _ = mixture(seed, patients)
        many, _, _ = mixture(seed, 20 * patients, sample=1)
        target = Adding([many]).to_the_end(planted_factors, 40)[0].factors
        found = Adding([tensor]).to_the_end(planted_factors, 40)[0].factors
        weights = bootstrap_weights(np.random.default_rng(seed), patients, replicates)
        models = replicate_models(tensor, found, weights)
        order = match_components(found, target).other
        rows = fit_patients(tensor, [found])[0]
        intervals = code_intervals(found, models, effective_patients(effective_parts(rows)))
        for interval, factor in zip(intervals, target, strict=True):
            weight, share = factor[:, order], shares(factor)[:, order]
            inside = (interval.low <= share) & (share <= interval.high)
            held += int(inside[weight > 0.05].sum())
            asked += int((weight > 0.05).sum())
        assert likeness(found, models).shape == (replicates, 3)
    return held / asked


resamples = pytest.mark.parametrize("replicates", [10, 40], ids=["as a study", "many"])


@resamples
def test_nine_of_ten_intervals_hold_what_more_patients_give(replicates):
    assert 0.82 <= coverage(range(6), replicates=replicates) <= 0.97


@resamples
@pytest.mark.verify
def test_nine_of_ten_intervals_hold_what_more_patients_give_over_thirty_networks(replicates):
    assert 0.85 <= coverage(range(30), replicates=replicates) <= 0.95


def test_a_prevalence_s_interval_is_the_middle_of_its_replicates():
    carriers = np.arange(101.0)[:, None]
    low, high = prevalence_interval(carriers, np.full(101, 100.0), np.array([0.5]))
    assert (low[0], high[0]) == pytest.approx((0.041, 0.959))
    assert prevalence_interval(carriers, np.full(101, 100.0), np.array([0.99])).high == [0.99]
    assert percentile_interval(np.zeros((5, 2, 2))).low.shape == (2, 2)
    few = np.array([[0.9, 0.01]] * 9 + [[1.0, 0.2]])
    low, high = prevalence_interval(few, np.ones(10), np.array([0.92, 0.02]))
    assert ((low >= 0.0) & (high <= 1.0)).all()


@pytest.mark.parametrize("count", [5, 10, 18, 40])
def test_nine_of_ten_intervals_of_few_draws_hold_a_further_one(count):
    draws = np.random.default_rng(0).standard_normal((count + 1, 20_000))
    low, high = percentile_interval(draws[1:])
    assert 0.87 <= ((low <= draws[0]) & (draws[0] <= high)).mean() <= 0.93


def test_carriers_are_found_and_relabelled_patients_have_nothing():
    tensor, truth, has = mixture(3)
    found = members(tensor, truth, SquaredLoss())
    planted_members = np.eye(3, dtype=bool)[has]
    assert (found & planted_members).sum() >= 0.9 * planted_members.sum()
    assert (found & planted_members).sum() >= 0.95 * found.sum()
    scale = np.array([0.1, 3.0, 9.0])
    assert np.array_equal(members(tensor, (truth[0] * scale, truth[1]), SquaredLoss()), found)
    indices, values = tensor.coordinates()
    shuffled, rng = indices.copy(), np.random.default_rng(0)
    for i in range(tensor.patients):
        mine = indices[:, 0] == i
        for n, people in enumerate(tensor.people_at_positions(), start=1):
            p = people / people.sum()
            names = rng.choice(len(p), len(p), replace=False, p=p)
            shuffled[mine, n] = names[indices[mine, n]]
    stranger = CountTensor.from_cells(shuffled, values, shape=tensor.shape)
    asked = np.ones((tensor.patients, 3), dtype=bool)
    assert (chance(stranger, truth, asked, rng) <= 0.01).mean() < 0.06
    assert (chance(stranger, truth, ~asked, rng) == 1.0).all()


def test_a_hospital_contributes_counts_of_people_and_of_resampled_people():
    having = np.array([[True, False], [True, True], [False, False]])
    told = counted(having, np.array([[1.0, 0.5], [2.0, 0.25], [4.0, 0.125]]))
    assert told.carriers.tolist() == [2.0, 1.0]
    assert told.without == 1.0
    assert told.resampled.tolist() == [[3.0, 2.0], [0.75, 0.25]]
    assert told.weights.tolist() == [7.0, 0.875]


def test_every_planted_phenotype_has_somebody_in_three_hospitals():
    parts = [part.select_patients(np.arange(60)) for part in planted(0).hospitals.values()]
    total = sum(members(part, planted(0).factors, SquaredLoss()).sum(axis=0) for part in parts)
    assert (total[:RANK] > 0).all()


@pytest.fixture(scope="module")
def weighed():
    """Six planted phenotypes, found from several starts, and what speaks for them."""
    tensors = planted(0).hospitals
    found = fit(tensors, SolverSettings(RANK, "exact", tol=1e-4, starts=4))
    generators = seeded_generators(0)
    federation = Maker("blind")(tuple(tensors))
    return found, weigh(federation, tensors, found, generators=generators, resamples=10, fewest=11)


def test_planted_phenotypes_are_stable_and_who_has_them_adds_up(weighed):
    found, evidence = weighed
    assert [one.grade for one in evidence.grades] == ["stable"] * RANK
    having = np.concatenate(list(evidence.having.values()))
    assert len(having) == found.patients
    assert evidence.carriers == tuple(having.sum(axis=0))
    assert evidence.without == (~having.any(axis=1)).sum()
    low, high = evidence.prevalence
    share = np.array(evidence.carriers) / found.patients
    assert ((low <= share) & (share <= high)).all()
    assert ((low > 0.0) & (low < high) & (high < 1.0)).all()


@pytest.mark.parametrize(
    "more",
    [{"constraint": "sparse", "sparsity": 0.02}, {"method": "trip", "relative_distinctness": 0.02}],
    ids=["sparse", "distinct"],
)
def test_with_a_penalty_too_other_starts_are_asked_and_of_one_start_nothing_is_stable(more):
    tensors = planted(0).hospitals
    settings = SolverSettings(**{"n_components": RANK, "tol": 1e-4, "starts": 4, **more})

    def evidence_from(starts):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TriphenoWarning)
            found = fit(tensors, replace(settings, starts=starts))
        plan = simulated_gatekeepers(
            tensors, {axis.mode: axis.size for axis in found.axes}, found.settings,
            AuditBuffer(), resamples=5,
        )  # fmt: skip
        federation = Maker("blind")(tuple(tensors), plan)
        generators = seeded_generators(0)
        return weigh(federation, tensors, found, generators=generators, resamples=5, fewest=11)

    grades = evidence_from(4).grades
    assert all(one.finalists > 0.9 for one in grades)
    assert [one.grade for one in grades] == ["stable"] * RANK
    alone = evidence_from(1).grades
    assert [(one.grade, one.finalists) for one in alone] == [("partly", None)] * RANK


def test_a_lone_carriers_weights_show_and_are_not_those_of_the_resampled_fits(weighed):
    alone, weights = np.array([[False], [True], [False]]), np.arange(6.0).reshape(3, 2)
    assert counted(alone, weights).resampled[:, 0].tolist() == weights[1].tolist()

    found, evidence = weighed

    def interval(purpose):
        parts = [
            counted(had, bootstrap_weights(seeded_generators(0)(name, purpose), len(had), 10))
            for name, had in evidence.having.items()
        ]
        share = np.array(evidence.carriers) / found.patients
        resampled, weights = (
            sum(getattr(p, part) for p in parts) for part in ("resampled", "weights")
        )
        return prevalence_interval(resampled, weights, share)

    np.testing.assert_allclose(evidence.prevalence, interval("resampled carriers"), rtol=1e-4)
    assert not np.allclose(evidence.prevalence, interval("resamples"), rtol=1e-3)  # of the fits


def test_intervals_hold_the_weights_and_no_phenotype_rests_on_more_patients_than_there_are(weighed):
    found, evidence = weighed
    for (low, high), factor in zip(evidence.intervals, found.factors, strict=True):
        assert low.shape == high.shape == factor.shape
        assert ((low <= shares(factor)) & (shares(factor) <= high)).all()
        assert ((low >= 0.0) & (high <= 1.0) & (low <= high)).all()
    assert all(11 <= one <= found.patients for one in evidence.effective)
    assert [one.effective_patients for one in evidence.grades] == list(evidence.effective)


def test_a_surplus_component_is_not_stable_and_without_resamples_there_is_no_grade():
    tensors = planted(0).hospitals
    found = fit(tensors, SolverSettings(RANK + 2, "exact", tol=1e-4, starts=4))
    asked = {"generators": seeded_generators(0), "fewest": 11}
    evidence = weigh(in_clear(tensors), tensors, found, resamples=10, **asked)
    assert any(one.grade != "stable" for one in evidence.grades)
    none = weigh(in_clear(tensors), tensors, found, resamples=0, **asked)
    assert (none.grades, none.intervals, none.prevalence) == ((), (), None)
    assert (none.carriers, none.effective) == (evidence.carriers, evidence.effective)


def test_an_origin_is_claimed_only_where_a_random_split_would_not_give_it():
    rng = np.random.default_rng(0)
    null = 0.8 + 0.1 * rng.random((40, 3, 4))
    observed = 0.8 + 0.1 * rng.random((3, 4))
    observed[:, 2] = [0.95, 0.1, 0.1]
    assert origin_claims(observed, null).tolist() == [False, False, True, False]
    assert not origin_claims(observed, null[:5]).any()
    false = [origin_claims(one, np.delete(null, n, 0)).any() for n, one in enumerate(null)]
    assert np.mean(false) <= 0.05


def test_splits_end_early_where_no_claim_is_left_and_claim_the_same_as_all_of_them():
    tensors = planted(0).hospitals
    found = fit(tensors, SolverSettings(RANK, "exact", tol=1e-4, starts=4, influence="none"))
    whole = pooled(list(tensors.values()))
    true = np.repeat(np.arange(len(tensors)), [one.patients for one in tensors.values()])
    for groups in (true, np.random.default_rng(5).permutation(true)):
        named = {
            str(n): whole.select_patients(np.flatnonzero(groups == n)) for n in range(len(tensors))
        }
        claims = hospitals_differ(named, found)
        again, rng = pooled(list(named.values())), np.random.default_rng(0)
        in_order = np.sort(groups)
        splits = [rng.permutation(in_order) for _ in range(SPLITS)]
        null = [own_likeness(again, found.factors, one, SquaredLoss()) for one in splits]
        every = origin_claims(
            own_likeness(again, found.factors, in_order, SquaredLoss()), np.stack(null)
        )
        assert claims.tolist() == every.tolist()


def test_a_split_to_come_never_brings_a_claim_back():
    rng = np.random.default_rng(1)
    null, observed = rng.random((19, 3, 6)), rng.random((3, 6))
    observed[:, 0] = [5.0, 0.0, 0.0]
    steps = [origin_claims(observed, null[:n], splits=19) for n in range(1, 20)]
    assert all((after <= before).all() for before, after in pairwise(steps))
    assert steps[-1].tolist() == origin_claims(observed, null).tolist()
    assert steps[-1][0]
