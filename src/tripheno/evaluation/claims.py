"""What may be claimed about hospitals and the number of phenotypes: only what beats a null."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

FALSE_CLAIMS = 0.05
NO_BETTER = 1.0  # held-out error of a model that foretells zero
NEAR_BEST = 0.01
STABLE_FROM = 0.8


def origin_claims(
    observed: np.ndarray, null: np.ndarray, stable: Sequence[bool], level: float = FALSE_CLAIMS
) -> np.ndarray:
    """Which phenotypes differ between hospitals by more than a random split would make them.

    ``observed`` is hospitals × components (how alike the nearest own phenotype is), ``null`` the
    same for splits of the same patients at random, splits × hospitals × components. The spread over
    hospitals must be larger than in all but ``level`` of the splits; the largest spread of any
    component in a split counts, for every component is asked. None is claimed of an unstable one.
    """
    if (len(null) + 1) * level < 1.0:
        return np.zeros(observed.shape[1], dtype=bool)  # too few splits to say anything
    spread = observed.max(axis=0) - observed.min(axis=0)
    largest = (null.max(axis=1) - null.min(axis=1)).max(axis=1)
    chance = (1.0 + (largest[:, None] >= spread).sum(axis=0)) / (len(null) + 1.0)
    return np.asarray((chance <= level) & np.asarray(stable, dtype=bool))


class RankAnswer(NamedTuple):
    """How many phenotypes, or none that the evidence carries."""

    rank: int | None
    reason: str


def rank_by_evidence(
    ranks: Sequence[int], held_out: Sequence[float], stability: Sequence[float]
) -> RankAnswer:
    """The fewest phenotypes near the least held-out error that also come back in halves.

    Errors are of weighted cells with a ridge on the memberships. A model that foretells no better
    than zero, or whose phenotypes do not come back from half of the patients, is no evidence.
    """
    errors, alike = np.asarray(held_out), np.asarray(stability)
    if not (errors < NO_BETTER).any():
        return RankAnswer(None, "no evidence: unseen counts are foretold no better than by zero")
    useful = (errors < NO_BETTER) & (alike >= STABLE_FROM)
    if not useful.any():
        return RankAnswer(None, "no evidence: phenotypes do not come back from halves")
    near = useful & (errors <= errors[useful].min() + NEAR_BEST)
    best = min((int(n) for n in np.flatnonzero(near)), key=lambda n: ranks[n])
    return RankAnswer(
        ranks[best],
        f"held-out error {errors[best]:.3f}, halves alike by {alike[best]:.2f}",
    )
