"""Scores, folds and areas of the downstream check."""

import numpy as np
import pytest

from tripheno.errors import SettingsError
from tripheno.evaluation.downstream import code_indicators
from tripheno.evaluation.logistic import auc, fit_chosen, fit_logistic, stratified_folds
from tripheno.evaluation.paper.outcomes import cohort_of
from tripheno.tensor.count_tensor import CountTensor


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
