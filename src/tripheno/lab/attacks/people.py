"""Was this person in the data, and at which hospital?

The attacker holds a person's whole record and a reference: records of other people like those in
the study. From the shared factors it works out what the person would add to the MTTKRP, and looks
whether what it saw leans that way: T(x) = Σ (M − n·μ)·m_x / (n·σ²), with μ and σ of the reference.
A null control runs the same attack on two groups of people neither of whom took part.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import rankdata

from tripheno.tensor.count_tensor import CountTensor
from tripheno.tensor.factors import gram_of_others
from tripheno.tensor.rows import regular

NORMAL_95 = 1.959963984540054


@dataclass(frozen=True)
class Area:
    """An area under the ROC curve (0.5 is chance) with its 95 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Share:
    """Right answers among guesses, with Wilson's 95 % interval, beside what chance gives."""

    value: float
    low: float
    high: float
    chance: float


def area_under_curve(inside: np.ndarray, outside: np.ndarray) -> Area:
    """P(a member scores higher than somebody else), with Hanley and McNeil's interval."""
    n, m = len(inside), len(outside)
    ranks = rankdata(np.concatenate([inside, outside]))
    value = float((ranks[:n].sum() - n * (n + 1) / 2) / (n * m))
    q1, q2 = value / (2 - value), 2 * value**2 / (1 + value)
    spread = value * (1 - value) + (n - 1) * (q1 - value**2) + (m - 1) * (q2 - value**2)
    half = NORMAL_95 * float(np.sqrt(max(spread, 0.0) / (n * m)))
    return Area(value, max(value - half, 0.0), min(value + half, 1.0))


def share_of(right: int, of: int, chance: float) -> Share:
    """A share with Wilson's interval."""
    z, p = NORMAL_95, right / of
    middle = (p + z * z / (2 * of)) / (1 + z * z / of)
    half = z / (1 + z * z / of) * float(np.sqrt(p * (1 - p) / of + z * z / (4 * of * of)))
    return Share(p, middle - half, middle + half, chance)


def mean_share(shares: Sequence[Share]) -> Share:
    """The mean of independent rounds, with the interval of their mean."""
    values = np.array([share.value for share in shares])
    middle = float(values.mean())
    half = NORMAL_95 * float(values.std(ddof=1)) / len(values) ** 0.5
    return Share(middle, middle - half, middle + half, shares[0].chance)


def additions(
    tensor: CountTensor, features: Sequence[np.ndarray], *, nonnegative: bool
) -> np.ndarray:
    """m_x of every patient, codes × R: what each adds to M of the first feature mode."""
    gram, _ = regular(gram_of_others(features))
    patients, _ = tensor.cells.update_patients(
        tuple(features), gram, nonnegative=nonnegative, guess=None
    )
    indices, values = tensor.coordinates()
    rows = np.zeros((tensor.patients, tensor.axes[0].size, patients.shape[1]))
    products = values[:, None] * np.ones(patients.shape[1])
    for n in range(1, len(tensor.axes)):
        products = products * features[n][indices[:, n + 1]]
    np.add.at(rows, (indices[:, 0], indices[:, 1]), products)
    rows *= patients[:, None, :]
    return rows


@dataclass(frozen=True)
class Reference:
    """What people who are not in question add, on average and in spread."""

    mean: np.ndarray
    variance: np.ndarray

    @classmethod
    def of(cls, adds: np.ndarray) -> Reference:
        """From their additions; the spread is kept from nothing."""
        variance = adds.var(axis=0)
        return cls(adds.mean(axis=0), variance + 1e-3 * float(variance.mean()) + 1e-300)

    def scores(self, seen: np.ndarray, people: int, adds: np.ndarray) -> np.ndarray:
        """T(x) for every row of ``adds``."""
        if not np.isfinite(seen).all():
            return np.zeros(len(adds))
        lean = (seen - people * self.mean) / (people * self.variance)
        return np.asarray(np.tensordot(adds - self.mean, lean, axes=2))


def attribute(
    seen: Sequence[np.ndarray], people: Sequence[int], adds: Sequence[np.ndarray], ref: Reference
) -> Share:
    """Guess the hospital of members, as many of each: the one whose M leans furthest to them."""
    everybody = np.concatenate(adds)
    home = np.repeat(np.arange(len(adds)), [len(own) for own in adds])
    scores = np.array([ref.scores(m, n, everybody) for m, n in zip(seen, people, strict=True)])
    # what leans to everybody says nothing: each hospital's scores on their own scale
    scores = scores - scores.mean(axis=1, keepdims=True)
    scores = scores / (scores.std(axis=1, keepdims=True) + 1e-300)
    right = int((scores.argmax(axis=0) == home).sum())
    return share_of(right, len(home), 1.0 / len(seen))
