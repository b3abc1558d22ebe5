"""What may be claimed about hospitals: only what beats a null."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

FALSE_CLAIMS = 0.05


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
