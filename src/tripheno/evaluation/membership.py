"""Who has a phenotype: it fits the patient better than chance would make it fit.

Chance is the same patient with every code relabelled: as many codes, counts and combinations as
before, but codes drawn anew by how many patients of the hospital have them. A patient has a
phenotype when no more than 1 % of such relabelled twins match it as well, and it takes a noticeable
share of the patient's counts. The twins are drawn at home and compared with their own patient, so
the rule fits sparse and dense data alike; only counts of people leave.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tripheno.exchange.messages import Contribution
from tripheno.exchange.registry import COMPONENTS, MODELS, declared, shaped
from tripheno.solver.loss import Loss
from tripheno.solver.starts import Factors
from tripheno.tensor.count_tensor import CountTensor
from tripheno.tensor.relabelling_kernels import first_distinct, guide_to, relabelled_products

COUNT_BITS = 20
ALPHA = 0.01
TWINS = 99  # relabelled twins of every patient
LEAST_SHARE = 0.05  # of what the model expects of the patient
_ROOM = 200_000  # cells of twins drawn at a time


@declared(
    "carriers", "phenotypes: how many patients have each, all hospitals together", lambda _plan: 1
)
@dataclass(frozen=True)
class Carriers(Contribution):
    """How many patients have each phenotype, and how many have none; the same of resamples."""

    without: float
    carriers: np.ndarray = shaped(COMPONENTS, least=COUNT_BITS)
    resampled: np.ndarray = shaped(MODELS, COMPONENTS)
    weights: np.ndarray = shaped(MODELS)


def chance(
    tensor: CountTensor,
    features: Sequence[np.ndarray],
    asked: np.ndarray,
    rng: np.random.Generator,
    twins: int = TWINS,
) -> np.ndarray:
    """Patients × components: the share of twins that match as well, the patient counted in.

    Nobody looks at what is not ``asked`` (patients × components): there it is 1.
    """
    samplers = [_CodeSampler(people) for people in tensor.people_at_positions()]
    found = [
        _chance(piece, features, asked[at], rng, samplers, twins) for at, piece in tensor.pieces()
    ]
    return np.concatenate(found)


def _chance(  # noqa: PLR0917 - the parts of one loop
    tensor: CountTensor,
    features: Sequence[np.ndarray],
    asked: np.ndarray,
    rng: np.random.Generator,
    samplers: Sequence[_CodeSampler],
    twins: int,
) -> np.ndarray:
    """The same of the patients of one piece; codes are drawn by how many of all have them."""
    cells, starts = tensor.cells, tensor.cells.starts
    indices, values = cells.indices, cells.values.astype(np.float64)
    offsets = np.cumsum([0, *(len(factor) for factor in features)])
    score, stacked = cells.patient_product(features), np.vstack(features)
    found = np.ones_like(score)
    for i in np.flatnonzero(asked.any(axis=1)):
        mine, columns = slice(starts[i], starts[i + 1]), np.flatnonzero(asked[i])
        codes = [np.unique(column, return_inverse=True) for column in indices[mine].T]
        sizes = [len(own) for own, _ in codes]
        begins = np.cumsum([0, *sizes[:-1]])
        places = np.column_stack([at + begin for (_, at), begin in zip(codes, begins, strict=True)])
        factors = np.ascontiguousarray(stacked[:, columns])
        better = np.zeros(len(columns))
        step = max(1, _ROOM // max(len(values[mine]), 1))
        for first in range(0, twins, step):
            count = min(step, twins - first)
            drawn = np.hstack([
                sampler.drawn(size, count, rng) + offset
                for sampler, size, offset in zip(samplers, sizes, offsets[:-1], strict=True)
            ])  # fmt: skip
            product = np.zeros((count, len(columns)))
            relabelled_products(values[mine], places, drawn, factors, product)
            better += (product >= score[i, columns] * (1.0 - 1e-12)).sum(axis=0)
        found[i, columns] = (better + 1.0) / (twins + 1.0)
    return found


class _CodeSampler:
    """Codes of one mode, to be drawn by how many people have them, none twice."""

    def __init__(self, people: np.ndarray) -> None:
        self._ends = np.cumsum(people / max(people.sum(), 1.0))
        self._guide = guide_to(self._ends)
        with np.errstate(divide="ignore"):
            self._log = np.log(people)

    def drawn(self, size: int, count: int, rng: np.random.Generator) -> np.ndarray:
        """``count`` samples of ``size`` codes: the first that differ, of three times as many.

        Where those were not enough, the largest of log-weight plus Gumbel noise: samples of the
        same kind, at the cost of a number for every code there is.
        """
        found, short = np.empty((count, size), dtype=np.int64), np.empty(count, dtype=bool)
        first_distinct(self._ends, self._guide, rng.random((count, 3 * size + 2)), found, short)
        if short.any():
            keys = self._log + rng.gumbel(size=(int(short.sum()), len(self._log)))
            best = np.argpartition(-keys, size - 1, axis=1)[:, :size]
            found[short] = rng.permuted(best, axis=1)
        return found


def members(
    tensor: CountTensor,
    features: Factors,
    loss: Loss,
    alpha: float = ALPHA,
    seed: int = 0,
) -> np.ndarray:
    """Patients × components: who has which. Patients without a cell have none."""
    (rows,) = loss.fit_patients(tensor, [features])
    expected = expected_counts(rows, features)
    noticeable = expected > LEAST_SHARE * expected.sum(axis=1, keepdims=True)
    rng = np.random.default_rng(seed)
    return np.asarray(noticeable & (chance(tensor, features, noticeable, rng) <= alpha))


def counted(having: np.ndarray, resampling: np.ndarray) -> Carriers:
    """What a hospital contributes; ``resampling`` is patients × resamples."""
    none = float((~having.any(axis=1)).sum())
    own = having.sum(axis=0).astype(np.float64)
    return Carriers(none, own, resampling.T @ having, resampling.sum(axis=0))


def expected_counts(patient_factor: np.ndarray, features: Sequence[np.ndarray]) -> np.ndarray:
    """m_ir = |a_ir| · Π_n Σ_j |A⁽ⁿ⁾_jr|: how many of a patient's counts a phenotype stands for.

    Unlike the bare membership it does not depend on how the factors are scaled.
    """
    sums = [np.abs(factor).sum(axis=0) for factor in features]
    return np.asarray(np.abs(patient_factor) * np.prod(sums, axis=0))
