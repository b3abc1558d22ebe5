"""How far a phenotype can be trusted: found again in other patients, and from other starts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from tripheno.exchange.messages import Contribution
from tripheno.exchange.registry import COMPONENTS, declared, shaped
from tripheno.solver.starts import Factors
from tripheno.tensor.factors import match_components

Grade = Literal["stable", "partly", "unstable"]

STABLE_FROM = 0.9  # product of cosines over modes; what another study of as many patients shows
RESAMPLED_FROM = 0.95  # two studies are twice as far apart as a resample is from its own
PARTLY_FROM = 0.7
SHARE = 0.9  # of the resamples in which it must be that much alike


class Graded(NamedTuple):
    """One phenotype's grade and what it rests on."""

    grade: Grade
    resamples: float  # the likeness reached in 90 % of the resamples
    finalists: float | None  # the least likeness among finalists as good as the best, if any
    effective_patients: float
    named: bool  # whether enough patients stand behind it to be released by name


def grade_for(resamples: float, finalists: float | None) -> Grade:
    """What the two together say, whoever stands behind it; of one start alone nothing is stable.

    A resample is as far from the model as the model from the truth; another study's model is that
    far on the other side, so what shall be alike there by ``STABLE_FROM`` must be closer here.
    """
    agreed = PARTLY_FROM if finalists is None else finalists
    if resamples >= RESAMPLED_FROM and agreed >= STABLE_FROM:
        return "stable"
    return "partly" if min(resamples, agreed) >= PARTLY_FROM else "unstable"


def likeness(reference: Factors, others: Sequence[Factors]) -> np.ndarray:
    """Models × components: how alike each of the reference's partners is."""
    found = [match_components(reference, other).similarity for other in others]
    return np.array(found).reshape(len(others), reference[0].shape[1])


@declared(
    "likeness", "phenotypes: how alike each is in resamples and among finalists, for its mean",
    lambda plan: int(plan.resampled > 0),
)  # fmt: skip
@dataclass(frozen=True)
class Likeness(Contribution):
    """What grades go by: reached in 90 % of the resamples; the least among finalists."""

    resamples: np.ndarray = shaped(COMPONENTS)
    finalists: np.ndarray = shaped(COMPONENTS)
    compared: float = shaped()  # 1 where there were finalists, else 0

    @classmethod
    def of(cls, resampled: np.ndarray, finalists: np.ndarray) -> Likeness:
        """From models × components of each."""
        ordered = np.sort(resampled, axis=0)
        if not len(ordered):
            ordered = np.zeros((1, resampled.shape[1]))
        place = int(np.floor((1.0 - SHARE) * len(ordered) + 1e-9))
        return cls(
            ordered[place],
            finalists.min(axis=0, initial=1.0),
            float(len(finalists) > 0),
        )


def graded(alike: Likeness, effective: np.ndarray, min_cell_count: int) -> tuple[Graded, ...]:
    """Grades of the phenotypes.

    Stable needs both, and at least ``min_cell_count`` effective patients: fewer are no evidence,
    and a name would point at them. Without resamples, or without other starts, nothing is stable.
    """
    result = []
    for reached, least, patients in zip(
        alike.resamples.tolist(), alike.finalists.tolist(), effective, strict=True
    ):
        agreed = least if alike.compared > 0.5 else None
        named = bool(patients >= min_cell_count)
        grade = grade_for(reached, agreed)
        grade = "partly" if grade == "stable" and not named else grade
        result.append(Graded(grade, reached, agreed, float(patients), named))
    return tuple(result)
