"""Were the planted phenotypes found again?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from tripheno.tensor.factors import similarity_matrix

FOUND_FROM = 0.7  # product of cosines over modes from which a planted phenotype counts as found


class Recovered(NamedTuple):
    """The component that is most like a planted phenotype."""

    name: str
    component: int
    similarity: float

    @property
    def found(self) -> bool:
        """Whether it is like enough to be recognised."""
        return self.similarity >= FOUND_FROM


def recovery(
    names: list[str], planted: Mapping[str, np.ndarray], found: Mapping[str, np.ndarray]
) -> list[Recovered]:
    """For every planted phenotype the most similar component.

    ``planted`` and ``found`` map each mode to an array of codes × phenotypes.
    """
    similarity = similarity_matrix(planted, found)
    best = similarity.argmax(axis=1)
    return [
        Recovered(name, int(best[i]), float(similarity[i, best[i]])) for i, name in enumerate(names)
    ]
