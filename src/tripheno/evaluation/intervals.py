"""How sure a code's weight and a prevalence are: the bootstrap, with weights drawn at home.

Every hospital draws a weight per patient and replicate by a secret of its own, Exp(1), and never
shows it. Weights are continuous: sums under whole-number weights would give single patients away.
A replicate is a fit from the finished model under these weights, several side by side in a round.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri, stdtrit  # all of scipy.stats takes half a second to load

from tripheno.errors import SettingsError
from tripheno.protocol.agreed import MOST_RESAMPLES
from tripheno.solver.starts import Factors
from tripheno.tensor.factors import match_components

LEVEL = 0.9


class Interval(NamedTuple):
    """Lower and upper end, in the shape of what they belong to."""

    low: np.ndarray
    high: np.ndarray


def bootstrap_weights(rng: np.random.Generator, patients: int, replicates: int) -> np.ndarray:
    """Patients × replicates, Exp(1)."""
    if not 0 <= replicates <= MOST_RESAMPLES:
        raise SettingsError(
            f"{replicates} bootstrap replicates",
            why="more sums over the same patients tell more about single ones",
            fix=f"use 0 to {MOST_RESAMPLES}",
        )
    return rng.standard_exponential((patients, replicates))


def shares(factor: np.ndarray) -> np.ndarray:
    """|a_ir| / Σ_j |a_jr|: the part of each component that a code holds."""
    size = np.abs(factor)
    return np.asarray(size / np.maximum(size.sum(axis=0), 1e-300))


def holding(interval: Interval, share: np.ndarray) -> Interval:
    """Of a share, as wide as it takes to hold it: a few replicates may all lie beside it."""
    low, high = np.clip(interval.low, 0.0, 1.0), np.clip(interval.high, 0.0, 1.0)
    return Interval(np.minimum(low, share), np.maximum(high, share))


def percentile_interval(
    values: np.ndarray, level: float = LEVEL, effective: np.ndarray | None = None
) -> Interval:
    """The middle part of the replicates (first axis), as wide as so few of them demand.

    Between the i-th and j-th of B draws lie (j − i)/(B + 1) of all, hence quantiles at p(B + 1);
    where even the least and the largest are too close together, wider by Student's t of so few over
    where the largest of so many normal draws stands. ``effective`` patients (last axis) are a small
    sample too: wider by Student's t over normal.
    """
    tail, count = 0.5 * (1.0 - level), len(values)
    low, high = np.quantile(values, [tail, 1.0 - tail], axis=0, method="weibull")
    wider = np.ones(1)
    if effective is not None:
        freedom = np.maximum(np.asarray(effective) - 1.0, 1.0)
        wider = stdtrit(freedom, 1.0 - tail) / ndtri(1.0 - tail)
        wider = wider * np.sqrt((freedom + 1.0) / freedom)
    if 1 < count < 1.0 / tail - 1.0:
        largest = ndtri((count - 0.375) / (count + 0.25))
        spread = stdtrit(count - 1, 1.0 - tail) * np.sqrt(1.0 + 1.0 / count)
        wider = wider * max(spread / largest, 1.0)
    middle = np.median(values, axis=0)
    return Interval(middle + wider * (low - middle), middle + wider * (high - middle))


def code_intervals(
    reference: Factors, replicates: Sequence[Factors], effective: np.ndarray | None = None
) -> list[Interval]:
    """Per mode an interval for every code's share of every component, from 0 to 1."""
    orders = [match_components(reference, replicate).other for replicate in replicates]
    intervals = []
    for n, factor in enumerate(reference):
        drawn = [shares(one[n])[:, order] for one, order in zip(replicates, orders, strict=True)]
        ends = percentile_interval(np.stack(drawn), effective=effective)
        intervals.append(holding(ends, shares(factor)))
    return intervals


def prevalence_interval(carriers: np.ndarray, patients: np.ndarray, share: np.ndarray) -> Interval:
    """Of the share of patients who have a phenotype, which is ``share`` without resampling.

    ``carriers`` (replicates × components) and ``patients`` (replicates) are sums of weights.
    """
    drawn = carriers / np.maximum(patients, 1e-300)[:, None]
    return holding(percentile_interval(drawn), share)
