"""Floats as 64-bit words that can be masked and added without rounding twice.

A word is round(x · 2ˢ) modulo 2⁶⁴. The power s is agreed per *lane* before anybody answers: a lane
is an entry of a small array, a column of a large matrix, or a whole long vector, so that a small
number beside a large one keeps its digits. With an exponent e, a hospital may contribute |x| < 2ᵉ,
and K of those cannot wrap around: s = 62 − ⌈log₂K⌉ − e. Where nothing is known yet, s = 40.
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

from tripheno.errors import BadMessage

FRACTION_BITS = 40  # s of a lane nobody has seen yet
WORD_BITS = 62  # room for the sign, and one bit to spare
SMALL_ARRAY = 256  # entries up to which each has its own scale
HEADROOM = 6  # bits by which a contribution may outgrow the last sum
JUMP = 12  # bits a lane is widened by when a contribution did not fit; doubled each time
NARROWEST, WIDEST = -900, 1000  # exponents that still make sense of a float
SMALLEST = -60  # a lane of zeros is looked at this closely and no closer
FORGETTING = 0.125  # bits a step by which a scale that was too narrow becomes worth a try again
DIGEST_BYTES = 32


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
            entries = math.prod(shape)
            if entries <= SMALL_ARRAY:
                lanes = np.arange(entries)
            elif len(shape) > 1:
                lanes = np.tile(np.arange(shape[-1]), entries // shape[-1])
            else:
                lanes = np.zeros(entries, dtype=np.int64)
            parts.append(first + lanes)
            first += int(lanes.max(initial=-1)) + 1
        return np.concatenate(parts)

    @cached_property
    def lanes(self) -> int:
        """How many scales the layout has."""
        return int(self.lane_of.max(initial=-1)) + 1

    @property
    def words(self) -> int:
        """Words of a sealed contribution: numbers, one overflow flag a lane, and the final 1."""
        return self.size + self.lanes + 1

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


@lru_cache(maxsize=256)
def _layout(arrays: tuple[tuple[str, tuple[int, ...]], ...]) -> Layout:
    return Layout(arrays)


def bits_of(hospitals: int) -> int:
    """⌈log₂K⌉."""
    return (hospitals - 1).bit_length()


def first_exponents(layout: Layout, hospitals: int) -> np.ndarray:
    """Exponents with which every word has 40 fractional bits."""
    return np.full(layout.lanes, WORD_BITS - bits_of(hospitals) - FRACTION_BITS, dtype="<i2")


def encode(
    layout: Layout, flat: np.ndarray, exponents: np.ndarray, hospitals: int
) -> tuple[np.ndarray, np.ndarray]:
    """Words of the numbers, and for each lane whether a number did not fit (its words are 0)."""
    room = WORD_BITS - bits_of(hospitals)
    scale = np.ldexp(1.0, room - exponents.astype(np.int64))
    with np.errstate(over="ignore"):
        scaled = flat * scale[layout.lane_of]
    too_large = ~(np.abs(scaled) < 2.0**room)
    overflow = np.zeros(layout.lanes, dtype=bool)
    if too_large.any():
        overflow[layout.lane_of[too_large]] = True
        scaled = np.where(overflow[layout.lane_of], 0.0, scaled)
    return np.rint(scaled).astype("<i8").view("<u8"), overflow


def decode(
    layout: Layout, words: np.ndarray, exponents: np.ndarray, hospitals: int
) -> dict[str, np.ndarray]:
    """The arrays that a sum of words stands for."""
    room = WORD_BITS - bits_of(hospitals)
    scale = np.ldexp(1.0, exponents.astype(np.int64) - room)
    return layout.split(words.view("<i8").astype(np.float64) * scale[layout.lane_of])


# ── the plan: which exponents the server proposes for a step ───────────────────────────────────


def pack_plan(layout: Layout, exponents: np.ndarray) -> bytes:
    """The plan as it travels with a broadcast."""
    return layout.digest + exponents.astype("<i2").tobytes()


def read_plan(plan: bytes, layout: Layout, hospitals: int, where: str) -> np.ndarray:
    """The exponents of a plan made for this very layout."""
    if not plan:
        return first_exponents(layout, hospitals)
    if plan[:DIGEST_BYTES] != layout.digest:
        raise BadMessage("the fields are not the protocol's", where=where)
    if len(plan) != DIGEST_BYTES + 2 * layout.lanes:
        raise BadMessage("a plan of the wrong length", where=where)
    exponents = np.frombuffer(plan, dtype="<i2", offset=DIGEST_BYTES)
    if exponents.size and not NARROWEST <= exponents.min() <= exponents.max() <= WIDEST:
        raise BadMessage("a plan with senseless scales", where=where)
    return exponents


class Scales:
    """What the server has learnt from earlier sums about the size of the next ones.

    It is computed from sums alone, so it tells hospitals nothing that the server might not say.
    """

    def __init__(self, hospitals: int) -> None:
        self.hospitals = hospitals
        self._learnt: dict[tuple[str, bytes], np.ndarray] = {}
        self._too_narrow: dict[tuple[str, bytes], np.ndarray] = {}
        self._peak: dict[tuple[str, bytes], np.ndarray] = {}

    def exponents(self, step: str, layout: Layout) -> np.ndarray:
        """As wide as for the same step of the last iteration and for the last step on its mode.

        A step that has neither goes by the last one of its layout.
        """
        keys = (_key(step, layout), _mode_key(step, layout))
        known = [self._learnt[key] for key in keys if key in self._learnt]
        if known:
            return np.asarray(np.maximum.reduce(known))
        return self._learnt.get(("", layout.digest), first_exponents(layout, self.hospitals))

    def widened(self, exponents: np.ndarray, overflow: np.ndarray, attempt: int) -> np.ndarray:
        """Wider lanes where a contribution did not fit; each attempt widens more."""
        wider = exponents.astype(np.int64) + (JUMP << attempt) * overflow
        return np.asarray(np.minimum(wider, WIDEST), dtype="<i2")

    def learn(
        self, step: str, layout: Layout, used: np.ndarray, total: np.ndarray, failed: np.ndarray
    ) -> None:
        """The next exponents: the size of this sum and head-room, above what was too narrow.

        Contributions of opposite sign can be much larger than their sum. ``failed`` are the widest
        exponents that were too narrow in this step (the narrowest of all where none was): halfway
        between them and those that worked is tried next, and they are forgotten slowly.
        A sum's size is forgotten slowly too: one that passes zero is soon as large as ever.
        """
        largest = np.zeros(layout.lanes)
        np.maximum.at(largest, layout.lane_of, np.abs(total))
        key, used = _key(step, layout), used.astype(np.int64)
        needed = np.where(largest > 0.0, np.frexp(largest)[1], NARROWEST).astype(np.int64)
        needed = np.maximum(needed, self._peak.get(key, needed) - 1)
        before = self._too_narrow.get(key, np.full(layout.lanes, float(NARROWEST)))
        narrow = np.where(failed > NARROWEST, failed, before - FORGETTING)
        floor = np.where(used - narrow > HEADROOM, (narrow + used) // 2, narrow + HEADROOM)
        floor = np.where(narrow > NARROWEST, floor, NARROWEST)
        # a sum of nothing may be one of very small numbers
        small = np.maximum(used - FRACTION_BITS, np.minimum(used, SMALLEST))
        small = np.where(narrow > NARROWEST, floor, small)
        following = np.where(needed > NARROWEST, np.maximum(needed + HEADROOM, floor), small)
        following = np.clip(following, NARROWEST, WIDEST).astype("<i2")
        self._too_narrow[key], self._peak[key] = narrow, needed
        self._learnt[key] = self._learnt["", layout.digest] = following
        self._learnt[_mode_key(step, layout)] = following

    def to_arrays(self) -> dict[str, np.ndarray]:
        """What was learnt, to be kept with a checkpoint."""
        found = {}
        for kind, known in self._kinds().items():
            for (step, digest), lanes in known.items():
                found[f"{kind}|{digest.hex()}|{step}"] = lanes.astype("<f8")
        return found

    def take(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Go on with what was learnt before."""
        for name, lanes in arrays.items():
            kind, digest, step = name.split("|", 2)
            exact = lanes if kind == "narrow" else lanes.astype("<i2")
            self._kinds()[kind][step, bytes.fromhex(digest)] = exact

    def _kinds(self) -> dict[str, dict[tuple[str, bytes], np.ndarray]]:
        return {"learnt": self._learnt, "narrow": self._too_narrow, "peak": self._peak}


def _key(step: str, layout: Layout) -> tuple[str, bytes]:
    """A step without its iteration: the first number in its name."""
    return re.sub(r"/\d+", "/*", step, count=1), layout.digest


def _mode_key(step: str, layout: Layout) -> tuple[str, bytes]:
    """A step without its iteration and its number on the mode, where it has one."""
    name, found = re.subn(r"/\d+(/\d+)/\d+", r"/*\1/*", step, count=1)
    return (name, layout.digest) if found else _key(step, layout)
