"""How many phenotypes? Four kinds of evidence for each number, and a recommendation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

NEAR_BEST = 0.01  # a held-out error this close to the least one counts as equal: fewer is simpler
NO_BETTER = 1.0  # held-out error of a model that predicts zero
STABLE_FROM = 0.8  # factor match between two halves of the patients
RETURNS_FROM = 0.5  # below it the halves have less in common than apart: nothing comes back
CONSISTENT_FROM = 80.0  # core consistency

Sure = Literal["clear", "fair", "weak", "none"]


@dataclass(frozen=True)
class RankEvidence:
    """What speaks for one number of phenotypes."""

    rank: int
    fit: float  # share of ‖O‖² explained, 1 − ‖X − O‖²/‖O‖²
    core_consistency: float
    stability: float  # factor match between models of two halves of the patients
    held_out_error: float
    held_out_folds: tuple[float, ...]
    least_stable: float  # of the components of the whole model, over the halves


@dataclass(frozen=True)
class Recommendation:
    """A number of phenotypes, how sure it is, and why; no number where nothing speaks for one."""

    rank: int | None
    sure: Sure
    reasons: tuple[str, ...]

    @property
    def text(self) -> str:
        """In one sentence."""
        if self.rank is None:
            return f"No evidence for any number of phenotypes tried: {'; '.join(self.reasons)}."
        return f"{self.rank} phenotypes, {self.sure} evidence: {'; '.join(self.reasons)}."


@dataclass(frozen=True)
class RankChoice:
    """The evidence for every rank tried, and what it suggests."""

    evidence: tuple[RankEvidence, ...]
    recommendation: Recommendation


def recommend(found: Sequence[RankEvidence]) -> Recommendation:
    """The fewest phenotypes whose held-out error is within 1 % of the least, and how sure.

    There is none where no model predicts better than zero, or where none that does comes back from
    halves of the patients. Four witnesses are asked: do all folds point to the same number (±1), is
    the model stable over halves, is its core consistent, and does the least error lie inside the
    range tried?
    """
    ordered = sorted(found, key=lambda one: one.rank)
    nothing = _no_evidence(ordered)
    if nothing:
        return Recommendation(None, "none", (nothing,))
    least = min(one.held_out_error for one in ordered)
    chosen = next(one for one in ordered if one.held_out_error <= least * (1 + NEAR_BEST))
    folds = np.array([one.held_out_folds for one in ordered])
    near = folds <= folds.min(axis=0) * (1 + NEAR_BEST)
    votes = [ordered[int(column.argmax())].rank for column in near.T]
    agree = all(abs(vote - chosen.rank) <= 1 for vote in votes)
    inside = ordered[0].rank < chosen.rank < ordered[-1].rank
    stable = chosen.stability >= STABLE_FROM
    consistent = chosen.core_consistency >= CONSISTENT_FROM
    error = f"{chosen.held_out_error:.3f}"
    reasons = (
        f"unseen counts are predicted with error {error}, and no more phenotypes predict them "
        "noticeably better",
        "all folds agree within one" if agree else f"folds disagree ({min(votes)} to {max(votes)})",
        f"two halves of the patients give {'the same' if stable else 'partly other'} phenotypes "
        f"(match {chosen.stability:.2f})",
        f"core consistency {chosen.core_consistency:.0f} "
        + ("fits such a model" if consistent else "is low: components work against each other"),
        *(() if inside else ("it lies at the edge of the range tried: widen --ranks",)),
    )
    against = [agree, stable, consistent, inside].count(False)
    sure: Sure = "clear" if against == 0 else "fair" if against == 1 else "weak"
    return Recommendation(chosen.rank, sure, reasons)


def _no_evidence(found: Sequence[RankEvidence]) -> str:
    """Why no number can be recommended, or ''."""
    useful = [one for one in found if one.held_out_error < NO_BETTER]
    if not useful:
        least = min(one.held_out_error for one in found)
        return f"unseen counts are predicted no better than by zero (error {least:.2f})"
    stability = max(one.stability for one in useful)
    if stability >= RETURNS_FROM:
        return ""
    best = min(found, key=lambda one: one.held_out_error)
    at_edge = best is found[-1]
    wider = "; the least error lies at the largest number tried: widen --ranks" if at_edge else ""
    return f"halves of the patients give other phenotypes each time (match {stability:.2f}){wider}"
