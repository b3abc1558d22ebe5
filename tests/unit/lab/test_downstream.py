"""Scores, folds and areas of the downstream check."""

from dataclasses import replace

import numpy as np
import pytest

from tripheno.errors import SettingsError
from tripheno.lab.downstream import (
    OWN,
    RAW,
    TOGETHER,
    Cohort,
    CrossValidation,
    _standard,
    code_indicators,
    folds_of,
    usefulness,
)
from tripheno.lab.logistic import auc, fit_chosen, fit_logistic, stratified_folds
from tripheno.lab.paper.outcomes import cohort_of
from tripheno.lab.synthetic.network import SyntheticSettings, synthetic_network
from tripheno.solver.settings import SolverSettings
from tripheno.study.simulation import assemble
from tripheno.tensor.count_tensor import CountTensor


def silent(_text):
    """Progress that nobody reads."""


def test_the_area_is_the_share_of_pairs_in_order():
    rng = np.random.default_rng(0)
    scores = rng.integers(0, 6, 40).astype(float)  # with ties
    outcome = rng.random(40) < 0.4
    pairs = scores[outcome][:, None] - scores[~outcome][None, :]
    assert auc(scores, outcome) == pytest.approx(((pairs > 0) + 0.5 * (pairs == 0)).mean())


def test_logistic_regression_stands_where_its_gradient_is_zero():
    rng = np.random.default_rng(1)
    features = rng.normal(size=(200, 3))
    outcome = rng.random(200) < 1 / (1 + np.exp(-features @ [1.5, -1.0, 0.0]))
    model = fit_logistic(features, outcome, penalty=2.0)
    excess = 1 / (1 + np.exp(-model.scores(features))) - outcome
    assert np.abs(features.T @ excess + 2.0 * model.weights).max() < 1e-2
    assert abs(excess.sum()) < 1e-2
    assert model.weights[0] > 0.5 > -0.5 > model.weights[1]


def test_features_that_say_nothing_score_near_chance_on_new_rows():
    rng = np.random.default_rng(2)
    noise, outcome = rng.normal(size=(600, 5)), rng.random(600) < 0.5
    model = fit_chosen(noise[:300], outcome[:300], rng)
    assert 0.4 < auc(model.scores(noise[300:]), outcome[300:]) < 0.6


def test_folds_share_out_both_outcomes_evenly():
    outcome = np.arange(53) < 11
    folds = stratified_folds(outcome, 5, np.random.default_rng(0))
    for value in (False, True):
        counts = np.bincount(folds[outcome == value], minlength=5)
        assert counts.max() - counts.min() <= 1


def test_indicators_say_which_codes_a_patient_has():
    tensor = CountTensor.from_cells([[0, 1, 0], [0, 1, 1], [1, 0, 1]], [2, 1, 3], shape=(3, 2, 2))
    dense = code_indicators(tensor).toarray().tolist()
    assert dense == [[0, 1, 1, 1], [1, 0, 0, 1], [0, 0, 0, 0]]


def test_data_without_an_outcome_is_refused(tmp_path):
    with pytest.raises(SettingsError):
        cohort_of("synthetic", tmp_path, 0)


@pytest.fixture(scope="module")
def signal():
    """Two hospitals in which the carriers of one planted phenotype mostly have the outcome."""
    settings = SyntheticSettings(patients_per_hospital=(220, 200), seed=5)
    network = synthetic_network(settings)
    tensors = {h.name: CountTensor.from_events(h.events) for h in network.hospitals}
    rng = np.random.default_rng(0)
    prevalence = np.mean([h.memberships.mean(axis=0) for h in network.hospitals], axis=0)
    common = int(prevalence.argmax())
    outcomes = {}
    for hospital in network.hospitals:
        carrier = hospital.memberships[:, common]
        outcomes[hospital.name] = rng.random(len(carrier)) < np.where(carrier, 0.8, 0.1)
    return Cohort(assemble(tensors).tensors, outcomes)


QUICK = SolverSettings(8, max_iter=30, starts=1)
ONCE = CrossValidation(folds=3, repeats=1)


@pytest.fixture(scope="module")
def found(signal):
    return {one.features: one for one in usefulness(signal, QUICK, ONCE, silent)}


def test_an_outcome_that_follows_a_phenotype_is_predicted_from_memberships(found):
    assert set(found) == {TOGETHER, OWN, RAW}
    together = found[TOGETHER]
    assert together.low > 0.6
    assert together.low < together.auc < together.high
    assert together.columns == 8 < found[RAW].columns


def test_gains_are_paired_and_narrower_than_intervals_apart(found):
    own = found[OWN]
    assert own.gain == pytest.approx(found[TOGETHER].auc - own.auc)
    assert own.gain_low <= own.gain <= own.gain_high
    apart = np.hypot(own.high - own.low, found[TOGETHER].high - found[TOGETHER].low)
    assert own.gain_high - own.gain_low < apart
    together = found[TOGETHER]
    assert (together.gain, together.gain_low, together.gain_high) == (0, 0, 0)


def test_a_person_of_two_hospitals_is_never_in_training_and_test():
    rng = np.random.default_rng(3)
    outcomes = {"a": rng.random(60) < 0.4, "b": rng.random(50) < 0.4}
    people = {"a": [f"p{i}" for i in range(60)], "b": [f"p{i + 40}" for i in range(50)]}
    folds = folds_of(Cohort({}, outcomes, people), 5, rng)
    assert (folds["a"][40:] == folds["b"][:20]).all()
    alone = folds_of(Cohort({}, outcomes), 5, np.random.default_rng(3))
    assert (alone["a"][40:] != alone["b"][:20]).any()


def test_an_outcome_that_follows_nothing_is_not_predicted(signal):
    rng = np.random.default_rng(1)
    shuffled = {name: rng.permutation(outcome) for name, outcome in signal.outcomes.items()}
    for one in usefulness(Cohort(signal.tensors, shuffled), QUICK, ONCE, silent):
        assert one.low < 0.5 < one.high


def test_a_hospital_with_hardly_an_outcome_is_not_judged(signal):
    few = {name: np.arange(len(outcome)) < 4 for name, outcome in signal.outcomes.items()}
    quick = replace(QUICK, max_iter=2)
    for one in usefulness(Cohort(signal.tensors, few), quick, ONCE, silent):
        assert np.isnan(one.auc)


def test_equal_scores_get_equal_ranks_in_whatever_order_patients_stand():
    assert _standard(np.array([1.0, 0.0, 0.0, 1.0])).tolist() == [0.75, 0.25, 0.25, 0.75]
