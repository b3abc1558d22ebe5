"""The first version's sums, kept as the baseline that attacks are tried on. Not for use.

A server asked, hospitals answered. Every two of them share a stream of words for each step: one
adds it, the other subtracts it, modulo 2⁶⁴, and in the sum the streams cancel. The server names the
scales of a step and reads the sum. The masks hang on the step and on nothing else it says, so it
may name other scales to each hospital.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

import numpy as np

from tripheno.exchange.fixed_point import NARROWEST, WIDEST, Layout, bits_of

WORD_BITS = 62  # room for the sign, and one bit to spare
Arrays = dict[str, np.ndarray]


class FirstVersion:
    """Hospitals that mask in pairs, and a server that adds; keys agreed on honestly."""

    def __init__(self, hospitals: Sequence[str], seed: int) -> None:
        self.hospitals, self.seed = tuple(hospitals), seed
        self.room = WORD_BITS - bits_of(len(self.hospitals))

    def sealed(self, name: str, step: str, arrays: Arrays, exponents: np.ndarray) -> np.ndarray:
        """A hospital's answer: round(x·2^(room − e)) and its masks, on the scales it was told."""
        layout = Layout.of(arrays)
        scaled = layout.flat(arrays) * self._scale(layout, self.room - exponents)
        words = np.rint(scaled).astype("<i8").view("<u8").copy()
        for other in self.hospitals:
            if other > name:
                words += self._stream(name, other, step, len(words))
            elif other < name:
                words -= self._stream(other, name, step, len(words))
        return np.asarray(words)

    def _stream(self, first: str, second: str, step: str, words: int) -> np.ndarray:
        secret = hashlib.sha256(f"{self.seed}|{first}|{second}".encode()).digest()
        return np.frombuffer(hashlib.shake_256(secret + step.encode()).digest(8 * words), "<u8")

    def _scale(self, layout: Layout, powers: np.ndarray) -> np.ndarray:
        return np.asarray(np.ldexp(1.0, powers.astype(np.int64))[layout.lane_of])

    def read(self, layout: Layout, words: np.ndarray, exponents: np.ndarray) -> Arrays:
        """Words as the numbers they would be without masks."""
        numbers = words.view("<i8").astype(np.float64)
        return layout.split(numbers * self._scale(layout, exponents - self.room))

    def scales(self, parts: Mapping[str, Arrays]) -> np.ndarray:
        """Exponents that every contribution fits: what a server learns from earlier sums."""
        layout = Layout.of(next(iter(parts.values())))
        largest = np.full(layout.lanes, 2.0**-60)
        for arrays in parts.values():
            np.maximum.at(largest, layout.lane_of, np.abs(layout.flat(arrays)))
        return np.asarray(np.clip(np.frexp(largest)[1] + 1, NARROWEST, WIDEST))

    def separated(self, step: str, parts: Mapping[str, Arrays], target: str) -> Arrays:
        """The server tells all but one hospital so wide a scale that they answer zeros."""
        exponents = self.scales(parts)
        wide = np.full_like(exponents, WIDEST)
        words = [
            self.sealed(name, step, parts[name], exponents if name == target else wide)
            for name in self.hospitals
        ]
        layout = Layout.of(parts[target])
        return self.read(layout, np.sum(words, axis=0, dtype="<u8"), exponents)
