"""Bytes that somebody hands on in place of the right ones."""

from __future__ import annotations

import random

WORDS = (b"1e999", b"-1", b"NaN", b"null", b"[[", b"9" * 5_000, b"{}", b"\\ud800", b"\xff\xfe")


def mangled(data: bytes, chance: random.Random) -> bytes:
    """Bytes cut, stretched, changed, with words that readers of numbers stumble over, or others."""
    found = bytearray(data)
    kind = chance.randrange(7)
    at = chance.randrange(len(found)) if found else 0
    if kind == 0:
        return chance.randbytes(chance.choice((0, 1, 7, 8, 40, 400)))
    if kind == 1:
        return bytes(found[:at])
    if kind == 2:
        return bytes(found + found[at:] + b"\0")
    if kind == 3:
        return chance.choice((b"", b"{}", b"[]", b"null", b"[" * 20_000, b'{"run": 1}'))
    if kind == 4 and found:
        for _ in range(chance.randint(1, 6)):
            found[chance.randrange(len(found))] ^= chance.randint(1, 255)
        return bytes(found)
    numbers = [n for n, byte in enumerate(found[:400]) if chr(byte).isdigit()]
    at = chance.choice(numbers) if numbers else at
    found[at : at + chance.randint(0, 3)] = chance.choice(WORDS)
    return bytes(found)
