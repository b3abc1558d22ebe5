"""Floats as whole numbers of the field, so that hospitals' sums are exact.

A number is round(x · 2^(room − e)). The exponent e is agreed per *lane* (see
:class:`~tripheno.exchange.fixed_point.Layout`): a hospital may contribute |x| < 2ᵉ, and K of those
cannot wrap around, with room = 60 − ⌈log₂K⌉ bits. Behind the numbers stands a flag for each lane:
0, or a random word where a number did not fit; then the lane's numbers are random too, and nothing
of that total is used. Hospitals choose exponents themselves, from the whole numbers of earlier
totals alone, so that all choose alike whatever machine they have.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from tripheno.errors import BadMessage, CannotAgreeOnScale
from tripheno.exchange import field, field_kernels
from tripheno.exchange.fixed_point import (
    FRACTION_BITS,
    HEADROOM,
    JUMP,
    LONGEST_JUMP,
    NARROWEST,
    SMALLEST,
    WIDEST,
    Layout,
    _key,
    _mode_key,
    bits_of,
)
from tripheno.exchange.keys import Entropy, expand

FIELD_BITS = 60
FEWEST_BITS = 24  # of the largest number in a lane, the first time it is seen
MOST_WIDENINGS = 40  # of 30 bits: from the narrowest lane of zeros to the widest there is
EIGHTHS = 8  # what was too narrow is forgotten by an eighth of a bit a step

Noise = Callable[[int], np.ndarray]
"""So many whole numbers that fill the field evenly, and that nobody can foresee."""


def noise_from(entropy: Entropy, purpose: str) -> Noise:
    """Noise under a hospital's own secret; no two calls give the same."""
    secret, calls = entropy(purpose), iter(range(1 << 62))

    def noise(words: int) -> np.ndarray:
        return field.uniform(expand(secret, b"noise" + next(calls).to_bytes(8, "little")), words)

    return noise


def room_for(hospitals: int) -> int:
    """Bits of a hospital's number, its sign apart."""
    return FIELD_BITS - bits_of(hospitals)


def first_exponents(layout: Layout, hospitals: int) -> np.ndarray:
    """Exponents with which every number has 40 fractional bits."""
    return np.full(layout.lanes, room_for(hospitals) - FRACTION_BITS, dtype="<i2")


def words_of(layout: Layout) -> int:
    """Whole numbers of a contribution: numbers and flags."""
    return layout.size + layout.lanes


def encode(
    layout: Layout, flat: np.ndarray, exponents: np.ndarray, hospitals: int, noise: Noise
) -> np.ndarray:
    """Numbers ‖ flags."""
    room = room_for(hospitals)
    words, overflow = np.zeros(words_of(layout), dtype="<i8"), np.zeros(layout.lanes, dtype=bool)
    numbers, flags = words[: layout.size], words[layout.size :]
    scales = np.ldexp(1.0, room - exponents.astype(np.int64))
    if flat.shape != (layout.size,) or field_kernels.scaled_into(
        flat, layout.lane_of, scales, 2.0**room, numbers, overflow
    ):
        raise BadMessage("a contribution of the wrong size, or with values that are not finite")
    if overflow.any():
        lost = overflow[layout.lane_of]
        numbers[lost] = noise(int(lost.sum()))
        flags[overflow] = noise(int(overflow.sum()))
    return words


def overflow_of(layout: Layout, words: np.ndarray) -> np.ndarray:
    """For each lane of a total, whether somebody's number did not fit."""
    return np.asarray(words[layout.size :] != 0)


def decode(
    layout: Layout, words: np.ndarray, exponents: np.ndarray, hospitals: int
) -> dict[str, np.ndarray]:
    """The arrays that a total stands for, where every number fitted."""
    if words.shape != (words_of(layout),) or overflow_of(layout, words).any():
        raise CannotAgreeOnScale("a total in which a number did not fit is not to be read")
    flat, room = words[: layout.size].astype(np.float64), room_for(hospitals)
    flat *= np.ldexp(1.0, exponents.astype(np.int64) - room)[layout.lane_of]
    return layout.split(flat)


def _largest(layout: Layout, numbers: np.ndarray) -> np.ndarray:
    """The largest size of each lane."""
    found = np.zeros(layout.lanes, dtype=np.int64)
    field_kernels.largest_of_lanes(numbers, layout.lane_of, found)
    return found


def _bit_lengths(sizes: np.ndarray) -> np.ndarray:
    """Bits of whole numbers ≥ 0, without a detour through floats that round up."""
    found = np.zeros(sizes.shape, dtype=np.int64)
    left = sizes.astype(np.int64)
    for step in (32, 16, 8, 4, 2, 1):
        wide = left >= (1 << step)
        found[wide] += step
        left[wide] >>= step
    return found + (left > 0)


class Scales:
    """What totals told about the size of the next ones: the same at every hospital."""

    def __init__(self, hospitals: int) -> None:
        self.hospitals = hospitals
        self._learnt: dict[tuple[str, bytes], np.ndarray] = {}
        self._too_narrow: dict[tuple[str, bytes], np.ndarray] = {}  # in eighths of a bit
        self._peak: dict[tuple[str, bytes], np.ndarray] = {}

    def exponents(self, step: str, layout: Layout, least: np.ndarray | None = None) -> np.ndarray:
        """As wide as for the same step of the last iteration and for the last step on its mode.

        A step that has neither goes by the last one of its layout, or takes the first exponents
        there are, and no lane of it is narrower than its declaration's ``least``.
        """
        keys = (_key(step, layout), _mode_key(step, layout))
        known = [self._learnt[key] for key in keys if key in self._learnt]
        if known:
            return np.asarray(np.maximum.reduce(known))
        first = self._learnt.get(("", layout.digest), first_exponents(layout, self.hospitals))
        return first if least is None else np.maximum(first, least).astype("<i2")

    def too_coarse(self, step: str, layout: Layout, words: np.ndarray) -> bool:
        """Whether the first total of its kind has a lane with few digits: a closer one is worth it.

        What is not zero and was never seen before may be very small beside the first scale.
        """
        if {_key(step, layout), _mode_key(step, layout)} & self._learnt.keys():
            return False
        bits = _bit_lengths(_largest(layout, words[: layout.size]))
        return bool(((bits > 0) & (bits < FEWEST_BITS)).any())

    def widened(self, exponents: np.ndarray, overflow: np.ndarray, attempt: int) -> np.ndarray:
        """Wider lanes where a number did not fit; each attempt (from 0) widens more.

        Never by so much that a number which just did not fit has no digits left on the wider scale:
        a lane of zeros that meets 2³¹ would give zero again.
        """
        if attempt >= MOST_WIDENINGS:
            raise CannotAgreeOnScale("numbers too large to be added")
        wider = exponents.astype(np.int64) + min(JUMP << attempt, LONGEST_JUMP) * overflow
        return np.asarray(np.minimum(wider, WIDEST), dtype="<i2")

    def learn(  # noqa: PLR0917 - what one step showed
        self,
        step: str,
        layout: Layout,
        used: np.ndarray,
        words: np.ndarray,
        failed: np.ndarray,
        least: np.ndarray | None = None,
    ) -> None:
        """The next exponents: the size of this total and head-room, above what was too narrow.

        Contributions of opposite sign can be much larger than their sum. ``failed`` are the widest
        exponents that were too narrow in this step (`NARROWEST` where none was): halfway between
        them and those that worked is tried next, and they are forgotten slowly. So is a total's
        size: one that passes zero is soon as large as ever. A lane that never held but zeros stays
        at its ``least``: what it is for may come later.
        """
        key, used = _key(step, layout), used.astype(np.int64)
        bits = _bit_lengths(_largest(layout, words[: layout.size]))
        headroom = HEADROOM if key in self._peak else 2 * HEADROOM  # first steps are the longest
        needed = np.where(bits > 0, bits + used - room_for(self.hospitals), NARROWEST)
        needed = np.maximum(needed, self._peak.get(key, needed) - 1)
        lowest = NARROWEST * EIGHTHS
        before = self._too_narrow.get(key, np.full(layout.lanes, lowest))
        narrow = np.where(failed > NARROWEST, failed.astype(np.int64) * EIGHTHS, before - 1)
        far = used * EIGHTHS - narrow > HEADROOM * EIGHTHS
        halfway = (narrow + used * EIGHTHS) // (2 * EIGHTHS)
        floor = np.where(far, halfway, narrow // EIGHTHS + HEADROOM)
        known = narrow > lowest
        floor = np.where(known, floor, NARROWEST)
        # a sum of nothing may be one of very small numbers
        small = np.maximum(used - FRACTION_BITS, np.minimum(used, SMALLEST))
        small = np.where(known, floor, small if least is None else np.maximum(small, least))
        following = np.where(needed > NARROWEST, np.maximum(needed + headroom, floor), small)
        following = np.clip(following, NARROWEST, WIDEST).astype("<i2")
        self._too_narrow[key], self._peak[key] = narrow, needed
        self._learnt[key] = self._learnt["", layout.digest] = following
        self._learnt[_mode_key(step, layout)] = following

    def to_arrays(self) -> dict[str, np.ndarray]:
        """What was learnt, to be kept with a checkpoint."""
        return {
            f"{kind}|{digest.hex()}|{step}": lanes.astype("<i8")
            for kind, known in self._kinds().items()
            for (step, digest), lanes in known.items()
        }

    def take(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Go on with what was learnt before."""
        for name, lanes in arrays.items():
            kind, digest, step = name.split("|", 2)
            exact = lanes.astype("<i2") if kind == "learnt" else lanes.astype(np.int64)
            self._kinds()[kind][step, bytes.fromhex(digest)] = exact

    def _kinds(self) -> dict[str, dict[tuple[str, bytes], np.ndarray]]:
        return {"learnt": self._learnt, "narrow": self._too_narrow, "peak": self._peak}
