"""How a contribution's numbers are laid out in one row, and which of them share a scale.

A *lane* is an entry of a small array, a column of a large matrix, or a whole long vector: each has
a scale of its own, so that a small number beside a large one keeps its digits.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

FRACTION_BITS = 40  # s of a lane nobody has seen yet
SMALL_ARRAY = 256  # entries up to which each has its own scale
HEADROOM = 6  # bits by which a contribution may outgrow the last sum
JUMP = 12  # bits a lane is widened by when a contribution did not fit; doubled each time
LONGEST_JUMP = 30  # and at most: of 60 bits less ⌈log₂K⌉, what did not fit keeps more than 20
NARROWEST, WIDEST = -900, 1000  # exponents that still make sense of a float
SMALLEST = -60  # a lane of zeros is looked at this closely and no closer


@dataclass(frozen=True)
class Layout:
    """Names and shapes of a contribution, as the protocol derives them; never from patients."""

    arrays: tuple[tuple[str, tuple[int, ...]], ...]

    @classmethod
    def of(cls, arrays: Mapping[str, np.ndarray]) -> Layout:
        """The layout of these arrays."""
        return cls.named({name: array.shape for name, array in arrays.items()})

    @classmethod
    def named(cls, shapes: Mapping[str, tuple[int, ...]]) -> Layout:
        """The layout of arrays with these names and shapes."""
        return _layout(tuple(sorted(shapes.items())))

    @cached_property
    def digest(self) -> bytes:
        """One hash of names and shapes."""
        return hashlib.sha256(json.dumps(self.arrays).encode()).digest()

    @cached_property
    def size(self) -> int:
        """Numbers in all arrays together."""
        return sum(math.prod(shape) for _, shape in self.arrays)

    @cached_property
    def lane_of(self) -> np.ndarray:
        """The lane of every number."""
        parts, first = [np.zeros(0, dtype=np.int64)], 0
        for _, shape in self.arrays:
            own = _lanes(shape)
            parts.append(first + np.resize(np.arange(own), math.prod(shape)))
            first += own
        return np.concatenate(parts)

    @cached_property
    def lanes(self) -> int:
        """How many scales the layout has."""
        return sum(_lanes(shape) for _, shape in self.arrays)

    def flat(self, arrays: Mapping[str, np.ndarray]) -> np.ndarray:
        """All numbers in one row."""
        return np.concatenate([arrays[name].ravel() for name, _ in self.arrays])

    def split(self, flat: np.ndarray) -> dict[str, np.ndarray]:
        """The arrays that one row holds."""
        found, at = {}, 0
        for name, shape in self.arrays:
            entries = math.prod(shape)
            found[name] = flat[at : at + entries].reshape(shape)
            at += entries
        return found


def _lanes(shape: tuple[int, ...]) -> int:
    """One for each number of a small array; else one for each column, or one for a row."""
    entries = math.prod(shape)
    if entries <= SMALL_ARRAY:
        return entries
    return shape[-1] if len(shape) > 1 else 1


@lru_cache(maxsize=256)
def _layout(arrays: tuple[tuple[str, tuple[int, ...]], ...]) -> Layout:
    return Layout(arrays)


def bits_of(hospitals: int) -> int:
    """⌈log₂K⌉."""
    return (hospitals - 1).bit_length()


def _key(step: str, layout: Layout) -> tuple[str, bytes]:
    """A step without its iteration: the first number in its name."""
    return re.sub(r"/\d+", "/*", step, count=1), layout.digest


def _mode_key(step: str, layout: Layout) -> tuple[str, bytes]:
    """A step without its iteration and its number on the mode, where it has one."""
    name, found = re.subn(r"/\d+(/\d+)/\d+", r"/*\1/*", step, count=1)
    return (name, layout.digest) if found else _key(step, layout)
