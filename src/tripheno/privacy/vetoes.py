"""Which codes stay: enough people behind them, and behind what each hospital sees of the others.

A code stays if at least ``fewest`` people in the network have it, and for every hospital the others
(total less its own) are none or at least ``fewest``. The second is a veto in a sum of its own: a
word for each code, 0 or random, so nobody learns who objected. People are counted no further than
``fewest``, which changes neither answer.
"""

from __future__ import annotations

import numpy as np

from tripheno.errors import BadShape
from tripheno.exchange.words import Noise


def counted(people: np.ndarray, fewest: int) -> np.ndarray:
    """One hospital's words for the count: min(people, fewest) for each code."""
    return np.asarray(np.minimum(people, fewest), dtype="<i8")


def vetoes(total: np.ndarray, own: np.ndarray, fewest: int, noise: Noise) -> np.ndarray:
    """One hospital's words: random where it would see a few of the others' people, else 0.

    ``own`` is what it contributed to ``total``.
    """
    others = total - own
    if total.shape != own.shape or (others < 0).any():
        raise BadShape("a total of people that is less than this hospital's own")
    seen = (others > 0) & (others < fewest)
    words = np.zeros(len(total), dtype="<i8")
    words[seen] = noise(int(seen.sum()))
    return words


def kept(total: np.ndarray, objections: np.ndarray, fewest: int) -> np.ndarray:
    """For each code whether it stays, the same at every hospital; what nobody has goes."""
    return np.asarray((total >= max(fewest, 1)) & (objections == 0))
