"""How many phenotypes? Four kinds of evidence for each number, and a recommendation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from tripheno.errors import SettingsError
from tripheno.evaluation.heldout import core_consistency, halves, held_out_error
from tripheno.evaluation.stability import matched, quiet_fit
from tripheno.exchange import MakeSums, plain_sums
from tripheno.solver.settings import SolverSettings
from tripheno.tensor.count_tensor import CountTensor
from tripheno.tensor.factors import factor_match_score

NEAR_BEST = 0.01  # a held-out error this close to the least one counts as equal: fewer is simpler
STABLE_FROM = 0.8  # factor match between two halves of the patients
CONSISTENT_FROM = 80.0  # core consistency

Sure = Literal["clear", "fair", "weak"]


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
    """A number of phenotypes, how sure it is, and why."""

    rank: int
    sure: Sure
    reasons: tuple[str, ...]

    @property
    def text(self) -> str:
        """In one sentence."""
        return f"{self.rank} phenotypes, {self.sure} evidence: {'; '.join(self.reasons)}."


@dataclass(frozen=True)
class RankChoice:
    """The evidence for every rank tried, and what it suggests."""

    evidence: tuple[RankEvidence, ...]
    recommendation: Recommendation


def choose_rank(
    tensors: Mapping[str, CountTensor],
    ranks: Sequence[int],
    settings: SolverSettings,
    *,
    repeats: int = 1,
    sums: MakeSums = plain_sums,
    announce: Callable[[RankEvidence], None] | None = None,
) -> RankChoice:
    """Fit every rank over the hospitals, whole and in halves, and weigh the evidence.

    Every fit is a federated one, the halves are split at home, and held-out error and core
    consistency are made from sums over hospitals (``solver/diagnosis.py``): no patient moves.
    """
    if not ranks:
        raise SettingsError("There is no rank to try", fix="--ranks 2:20")
    few = [name for name, tensor in tensors.items() if tensor.patients < 4]
    if few:
        raise SettingsError(f"{few[0]} has fewer than 4 patients", why="halves would be empty")
    found = []
    for rank in ranks:
        found.append(weigh(tensors, replace(settings, n_components=rank), repeats, sums))
        if announce is not None:
            announce(found[-1])
    return RankChoice(tuple(found), recommend(found))


def weigh(
    tensors: Mapping[str, CountTensor],
    settings: SolverSettings,
    repeats: int,
    sums: MakeSums = plain_sums,
) -> RankEvidence:
    """The evidence for one rank."""
    settings = replace(settings, track_rmse=False, bias=False)
    nonnegative = settings.constraint != "none"
    whole = quiet_fit(tensors, settings, sums)
    folds, alike, models = [], [], []
    for repeat in range(repeats):
        parts = halves(tensors, np.random.default_rng([settings.seed, repeat]))
        pair = [quiet_fit(part, settings, sums) for part in parts]
        alike.append(factor_match_score(pair[0].factors, pair[1].factors))
        models += pair
        for model, unseen in zip(pair, parts[::-1], strict=True):
            rng = np.random.default_rng([settings.seed, repeat, 1])
            error = held_out_error(unseen, model.factors, rng, nonnegative=nonnegative, sums=sums)
            folds.append(error)
    patients = whole.patient_factors
    if set(patients) != set(tensors):
        raise SettingsError(f"'{settings.method}' keeps no patients by hospital", fix="use exact")
    return RankEvidence(
        settings.n_components,
        1.0 - whole.objective / whole.squared_norm,
        core_consistency(tensors, patients, whole.factors, sums=sums),
        float(np.mean(alike)),
        float(np.mean(folds)),
        tuple(folds),
        float(matched(whole, models).min()),
    )


def recommend(found: Sequence[RankEvidence]) -> Recommendation:
    """The fewest phenotypes whose held-out error is within 1 % of the least, and how sure.

    Four witnesses are asked: do all folds point to the same number (±1), is the model stable over
    halves, is its core consistent, and does the least error lie inside the range tried?
    """
    ordered = sorted(found, key=lambda one: one.rank)
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
        f"unseen counts are foretold with error {error}, and no more phenotypes foretell them "
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
