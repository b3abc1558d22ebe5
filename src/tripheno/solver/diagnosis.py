"""Which patient has which phenotype."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

LEAST_COUNTS = 3.0  # a phenotype must account for this many of a patient's counts
LEAST_SHARE = 0.1  # and for this share of all counts the model expects of the patient


def expected_counts(patient_factor: np.ndarray, features: Sequence[np.ndarray]) -> np.ndarray:
    """m_ir = |a_ir| · Π_n Σ_j |A⁽ⁿ⁾_jr|: how many of a patient's counts a phenotype stands for.

    Unlike the bare membership it does not depend on how the factors are scaled.
    """
    sums = [np.abs(factor).sum(axis=0) for factor in features]
    return np.asarray(np.abs(patient_factor) * np.prod(sums, axis=0))


def carriers(patient_factor: np.ndarray, features: Sequence[np.ndarray]) -> np.ndarray:
    """Which patient (row) has which phenotype (column).

    A patient has a phenotype that stands for at least 3 of the patient's counts and at least a
    tenth of all counts that the model expects of the patient.
    """
    counts = expected_counts(patient_factor, features)
    enough = np.maximum(LEAST_SHARE * counts.sum(axis=1, keepdims=True), LEAST_COUNTS)
    return np.asarray(counts >= enough)
