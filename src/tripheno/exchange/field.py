"""Words of the field with p = 2⁶¹ − 1 elements: masks from streams, and the tag of a sum.

A field and not the ring of 64-bit words: there a linear tag is forged half of the time by adding
2⁶³. A word on the wire is 8 bytes, little-endian, below p.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CTR

from tripheno.exchange import field_kernels
from tripheno.exchange.keys import expand

P = (1 << 61) - 1
LARGEST = (1 << 60) - 1  # the field's elements are the whole numbers from −LARGEST to LARGEST
LIMIT = 8 * P  # raw words from here on would make the smallest elements likelier
WORD_BYTES = 8
CHUNK = 1 << 14  # words at a time: they stay in the processor's cache
_BLOCK_BYTES = 16
_FROM_ZERO = CTR(bytes(_BLOCK_BYTES))
_NOTHING = memoryview(bytes(WORD_BYTES * CHUNK))


class Stream:
    """Elements of the field under a key that is used for this and nothing else.

    AES-256-CTR gives 64-bit words w; w mod p is exactly uniform for w < 8p = 2⁶⁴ − 8. The eight
    words above (one in 2⁶¹) are replaced, the same way by everybody who has the key.
    """

    def __init__(self, key: bytes, room: bytearray) -> None:
        self._key, self._room, self._at = key, room, 0
        self._cipher = Cipher(AES(expand(key, b"stream")), _FROM_ZERO).encryptor()

    def raw(self, words: int) -> np.ndarray:
        """The next words, each below 8p; they stand in the shared room until the next call."""
        self._cipher.update_into(_NOTHING[: WORD_BYTES * words], self._room)
        found = np.frombuffer(self._room, dtype="<u8", count=words)
        if words and int(found.max()) >= LIMIT:
            replace_unfair(found, self._at, self._key)
        self._at += words
        return found


def room(words: int) -> bytearray:
    """Where streams of a sum of so many words put theirs, one after the other."""
    return bytearray(WORD_BYTES * min(words, CHUNK) + _BLOCK_BYTES)  # the cipher wants it to spare


def replace_unfair(words: np.ndarray, first: int, key: bytes) -> None:
    """Draw the words again, in place, that are not below 8p; ``first`` is the first word's place.

    Each is the first fair one of a row that hangs on key and place alone.
    """
    for n in np.flatnonzero(words >= np.uint64(LIMIT)):
        place = (first + int(n)).to_bytes(8, "little")
        for attempt in count():
            drawn = expand(key, b"again" + place + attempt.to_bytes(4, "little"))
            word = int.from_bytes(drawn[:WORD_BYTES], "little")
            if word < LIMIT:
                words[n] = word
                break


def sealed(
    numbers: np.ndarray, tag_key: bytes, plus: Sequence[bytes], minus: Sequence[bytes]
) -> np.ndarray:
    """The words x ‖ Σαᵢxᵢ + Σ S(plus) − Σ S(minus), for whole numbers |x| ≤ 2⁶⁰ − 1."""
    size, shared, tag = len(numbers), room(len(numbers) + 1), 0
    masked = np.empty(size + 1, dtype="<u8")
    weights = Stream(tag_key, shared)
    added, taken = ([Stream(key, shared) for key in keys] for keys in (plus, minus))
    for first in range(0, size + 1, CHUNK):
        part = masked[first : first + CHUNK]
        own = part[: size - first]
        field_kernels.into_field(numbers[first : first + CHUNK], own)
        tag += _inner_product(own, weights)
        if len(own) < len(part):
            part[-1] = tag % P
        for stream in added:
            field_kernels.add_stream(part, stream.raw(len(part)))
        for stream in taken:
            field_kernels.subtract_stream(part, stream.raw(len(part)))
    return masked


def opened(total: np.ndarray, tag_key: bytes, blind: bytes) -> np.ndarray | None:
    """The whole numbers that a blinded total stands for; nothing where its tag does not fit."""
    size, shared, tag = len(total) - 1, room(len(total)), 0
    numbers, words = np.empty(size, dtype="<i8"), np.empty(CHUNK, dtype="<u8")
    weights, blinding = Stream(tag_key, shared), Stream(blind, shared)
    for first in range(0, size + 1, CHUNK):
        part = words[: len(total) - first]
        part[:] = total[first : first + CHUNK]
        field_kernels.subtract_stream(part, blinding.raw(len(part)))
        own = part[: size - first]
        tag += _inner_product(own, weights)
        field_kernels.out_of_field(own, numbers[first : first + CHUNK])
    return numbers if tag % P == int(part[-1]) else None


def _inner_product(words: np.ndarray, weights: Stream) -> int:
    low, high = field_kernels.inner_product(words, weights.raw(len(words)))
    return int(low) + (int(high) << 32)


def into_field(numbers: np.ndarray) -> np.ndarray:
    """Whole numbers as words."""
    words = np.empty(len(numbers), dtype="<u8")
    field_kernels.into_field(numbers, words)
    return words


def out_of_field(words: np.ndarray) -> np.ndarray:
    """Words as the whole numbers between −2⁶⁰ and 2⁶⁰."""
    numbers = np.empty(len(words), dtype="<i8")
    field_kernels.out_of_field(words, numbers)
    return numbers


def uniform(key: bytes, words: int) -> np.ndarray:
    """Whole numbers that fill the field evenly."""
    found, stream = np.zeros(words, dtype="<u8"), Stream(key, room(words))
    for first in range(0, words, CHUNK):
        part = found[first : first + CHUNK]
        field_kernels.add_stream(part, stream.raw(len(part)))
    return out_of_field(found)
