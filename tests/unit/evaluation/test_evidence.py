from __future__ import annotations

import numpy as np
import pytest

from tripheno.errors import SettingsError
from tripheno.evaluation.claims import origin_claims
from tripheno.evaluation.grades import graded, likeness, near_best
from tripheno.evaluation.intervals import (
    MOST_REPLICATES,
    bootstrap_weights,
    code_intervals,
    percentile_interval,
    prevalence_interval,
)
from tripheno.evaluation.membership import chance, members, membership_counts
from tripheno.privacy.small_cells import people_at_positions
from tripheno.solver.influence import effective_parts, effective_patients
from tripheno.solver.stacked import fit_patients
from tripheno.tensor.count_tensor import CountTensor
from tripheno.tensor.factors import match_components, unit_columns
from tripheno.testing.adding import Adding
from tripheno.testing.planted import RANK, planted


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
    result = graded(resampled, finalists, np.array([50.0, 50, 50, 50, 3]), 11)
    assert [one.grade for one in result] == ["stable", "partly", "partly", "unstable", "partly"]
    assert [one.named for one in result] == [True] * 4 + [False]
    assert near_best([100.0, 100.9, 101.1]) == [0, 1]
    assert graded(np.zeros((0, 1)), finalists[:, :1], np.array([50.0]), 11)[0].grade == "unstable"


def test_weights_come_from_the_secret_and_are_never_whole_numbers():
    one, again = (bootstrap_weights(b"secret", 50, 4) for _ in range(2))
    assert np.array_equal(one, again)
    assert not np.array_equal(one, bootstrap_weights(b"another", 50, 4))
    assert (one != np.round(one)).all()
    with pytest.raises(SettingsError):
        bootstrap_weights(b"secret", 50, MOST_REPLICATES + 1)


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
        weights = bootstrap_weights(b"%d" % seed, patients, replicates)
        models = replicate_models(tensor, found, weights)
        order = match_components(found, target).other
        rows = fit_patients(tensor, [found])[0]
        intervals = code_intervals(found, models, effective_patients(effective_parts(rows)))
        for interval, factor in zip(intervals, target, strict=True):
            weight = factor[:, order]
            inside = (interval.low <= weight) & (weight <= interval.high)
            held += int(inside[weight > 0.05].sum())
            asked += int((weight > 0.05).sum())
        assert likeness(found, models).shape == (replicates, 3)
    return held / asked


def test_nine_of_ten_intervals_hold_what_more_patients_give():
    assert 0.82 <= coverage(range(3)) <= 0.97


@pytest.mark.verify
def test_nine_of_ten_intervals_hold_what_more_patients_give_over_thirty_networks():
    assert 0.85 <= coverage(range(30)) <= 0.95


def test_a_prevalence_s_interval_is_the_middle_of_its_replicates():
    carriers = np.arange(101.0)[:, None]
    low, high = prevalence_interval(carriers, np.full(101, 100.0))
    assert (low[0], high[0]) == pytest.approx((0.041, 0.959))
    assert percentile_interval(np.zeros((5, 2, 2))).low.shape == (2, 2)


def test_carriers_are_found_and_relabelled_patients_have_nothing():
    tensor, truth, has = mixture(3)
    people = people_at_positions(tensor)
    rng = np.random.default_rng(0)
    found = members(tensor, truth, people, rng)
    planted_members = np.eye(3, dtype=bool)[has]
    assert (found & planted_members).sum() >= 0.9 * planted_members.sum()
    assert (found & planted_members).sum() >= 0.95 * found.sum()
    indices, values = tensor.coordinates()
    shuffled = indices.copy()
    for i in range(tensor.patients):
        mine = indices[:, 0] == i
        for n in (1, 2):
            p = people[n - 1] / people[n - 1].sum()
            names = rng.choice(len(p), len(p), replace=False, p=p)
            shuffled[mine, n] = names[indices[mine, n]]
    stranger = CountTensor.from_cells(shuffled, values, shape=tensor.shape)
    assert (chance(stranger, truth, people, rng) <= 0.01).mean() < 0.06
    counts = membership_counts(found)
    assert counts[-2] == tensor.patients
    assert counts[-1] == (~found.any(axis=1)).sum()


def test_every_planted_phenotype_has_somebody_in_three_hospitals():
    parts = list(planted(0).hospitals.values())
    found = planted(0).factors
    parts = [part.select_patients(np.arange(60)) for part in parts]
    people = [sum(mode) for mode in zip(*map(people_at_positions, parts), strict=True)]
    rng = np.random.default_rng(0)
    total = sum(membership_counts(members(part, found, people, rng)) for part in parts)
    assert (total[:RANK] > 0).all()


def test_an_origin_is_claimed_only_where_a_random_split_would_not_give_it():
    rng = np.random.default_rng(0)
    null = 0.8 + 0.1 * rng.random((40, 3, 4))
    observed = 0.8 + 0.1 * rng.random((3, 4))
    observed[:, 2] = [0.95, 0.1, 0.1]
    assert origin_claims(observed, null, [True] * 4).tolist() == [False, False, True, False]
    assert not origin_claims(observed, null, [True, True, False, True]).any()
    assert not origin_claims(observed, null[:5], [True] * 4).any()
    false = [origin_claims(one, np.delete(null, n, 0), [True] * 4).any()
             for n, one in enumerate(null)]  # fmt: skip
    assert np.mean(false) <= 0.05
