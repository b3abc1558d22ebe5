"""Ridge logistic regression, small enough to be read: what a score needs and no more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit

Matrix = Any  # numpy array or scipy sparse matrix: rows × columns
PENALTIES = (0.1, 1.0, 10.0, 100.0)


@dataclass(frozen=True)
class Logistic:
    """A fitted model: P(y = 1 | x) = 1 / (1 + exp(−b − wᵀx))."""

    weights: np.ndarray
    intercept: float

    def scores(self, features: Matrix) -> np.ndarray:
        """Row by row b + wᵀx: the log odds."""
        return np.asarray(features @ self.weights).ravel() + self.intercept


def fit_logistic(features: Matrix, outcome: np.ndarray, penalty: float) -> Logistic:
    """The w, b with least  Σ_i log(1 + exp(−s_i(b + wᵀx_i))) + ½·penalty·‖w‖²,  s_i = ±1.

    The intercept is not penalised. Convex, so the start does not matter.
    """
    signs = np.where(outcome, 1.0, -1.0)
    columns = features.shape[1]

    def loss(point: np.ndarray) -> tuple[float, np.ndarray]:
        weights, intercept = point[:columns], point[columns]
        margin = signs * (np.asarray(features @ weights).ravel() + intercept)
        value = np.logaddexp(0.0, -margin).sum() + 0.5 * penalty * weights @ weights
        slope = -signs * expit(-margin)
        gradient = np.asarray(features.T @ slope).ravel() + penalty * weights
        return float(value), np.append(gradient, slope.sum())

    found = minimize(loss, np.zeros(columns + 1), jac=True, method="L-BFGS-B").x
    return Logistic(found[:columns], float(found[columns]))


def deviance(model: Logistic, features: Matrix, outcome: np.ndarray) -> float:
    """Mean −log likelihood: small when probabilities are right, not only their order."""
    signs = np.where(outcome, 1.0, -1.0)
    return float(np.logaddexp(0.0, -signs * model.scores(features)).mean())


def fit_chosen(features: Matrix, outcome: np.ndarray, rng: np.random.Generator) -> Logistic:
    """The model whose penalty predicts held-out thirds of its own rows best."""
    folds = stratified_folds(outcome, 3, rng)
    costs = []
    for penalty in PENALTIES:
        parts = []
        for fold in range(3):
            seen, held = folds != fold, folds == fold
            model = fit_logistic(features[seen], outcome[seen], penalty)
            parts.append(deviance(model, features[held], outcome[held]))
        costs.append(np.mean(parts))
    return fit_logistic(features, outcome, PENALTIES[int(np.argmin(costs))])


def stratified_folds(outcome: np.ndarray, folds: int, rng: np.random.Generator) -> np.ndarray:
    """A fold for every row, both outcomes spread evenly over them."""
    fold = np.empty(len(outcome), dtype=np.int64)
    for value in (False, True):
        rows = rng.permutation(np.flatnonzero(outcome == value))
        fold[rows] = np.arange(len(rows)) % folds
    return fold


def auc(scores: np.ndarray, outcome: np.ndarray) -> float:
    """The chance that a row with the outcome is scored above one without; ties count half."""
    ordered, inverse, counts = np.unique(scores, return_inverse=True, return_counts=True)
    del ordered
    ranks = (np.cumsum(counts) - (counts - 1) / 2.0)[inverse]
    positives = int(outcome.sum())
    negatives = len(outcome) - positives
    if positives == 0 or negatives == 0:
        return float("nan")
    return float(
        (ranks[outcome].sum() - positives * (positives + 1) / 2.0) / (positives * negatives)
    )
