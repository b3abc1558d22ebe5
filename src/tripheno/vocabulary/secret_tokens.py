"""Common axes without code lists: tokens under every hospital's secret exponent.

A code is hashed to a point of P-256, and its token is that point under the exponents of all K
hospitals: nobody can make a token for a code alone, and a coordinator with one hospital cannot try
codes. An owner sends its points under a fresh exponent r; every other hospital adds its own s; the
owner takes r off and adds its s. So no hospital on the way ever holds a finished token of another's
list. The owners send finished tokens to the coordinator, which publishes the sorted union: a code's
position is its rank. Points are 32 bytes, the x-coordinate: a point and its negative are one.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from itertools import count, pairwise

import numpy as np
from cryptography.hazmat.primitives.asymmetric import ec

from tripheno.errors import BadMessage
from tripheno.exchange.keys import Entropy, expand
from tripheno.exchange.roster import digest_of

POINT_BYTES = 32
MOST_TOKENS = 1 << 22
PAD_TO = 64  # lists are as long as the next multiple, so a length tells little
ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
KEPT = 1 << 16  # points of codes: nothing in them is secret
_CURVE = ec.SECP256R1()

Points = tuple[bytes, ...]


@lru_cache(maxsize=KEPT)  # hospitals of one process have many codes in common
def point_of(study: bytes, mode: str, code: str) -> bytes:
    """The point a code is hashed to: again until the hash is a point's x-coordinate."""
    for attempt in count():
        parts = (study, mode.encode(), code.encode(), attempt.to_bytes(4, "little"))
        found = digest_of("code", *parts)
        if _is_point(found):
            return found
    raise AssertionError  # count() has no end


def exponent_of(secret: bytes, study: bytes) -> int:
    """A hospital's exponent in a study, from a secret that it keeps and backs up."""
    wide = expand(secret, b"token exponent 1" + study) + expand(secret, b"2" + study)
    return 1 + int.from_bytes(wide, "big") % (ORDER - 1)


def hide(exponent: int, points: Sequence[bytes], *, where: str) -> Points:
    """The points under an exponent, in their order; whatever is no point is refused."""
    key = ec.derive_private_key(exponent, _CURVE)
    try:
        return tuple(key.exchange(ec.ECDH(), _point(x)) for x in points)
    except ValueError:
        raise BadMessage("a list with something that is no point", where=where) from None


class Curve:
    """How exponents come onto points."""

    def hide(self, exponent: int, points: Sequence[bytes], *, where: str) -> Points:
        """A list on its way, under one exponent more."""
        return hide(exponent, points, where=where)

    def finish(self, exponent: int, points: Sequence[bytes], *, where: str) -> Points:
        """A list that has been everywhere, under the last one: tokens."""
        return hide(exponent, points, where=where)


class AllKnown(Curve):
    """The same tokens where one process knows all exponents: each distinct code's is made once.

    Lists on their way are opaque to whoever gets them, so that digests stand for their points.
    """

    def __init__(self) -> None:
        self._behind: dict[bytes, tuple[bytes, int]] = {}  # digest → a code's point, its exponent
        self._tokens: dict[tuple[bytes, int], bytes] = {}

    def hide(self, exponent: int, points: Sequence[bytes], *, where: str) -> Points:
        """A digest of the code's point and of the product of its exponents so far."""
        del where
        found = []
        for code, product in self._under(exponent, points):
            digest = sha256(code + product.to_bytes(POINT_BYTES, "big")).digest()
            self._behind[digest] = code, product
            found.append(digest)
        return tuple(found)

    def finish(self, exponent: int, points: Sequence[bytes], *, where: str) -> Points:
        """What all exponents make of the codes' points."""
        under = self._under(exponent, points)
        for whole in {product for _, product in under}:
            new = [c for c, product in under if product == whole and (c, whole) not in self._tokens]
            made = hide(whole, new, where=where)
            self._tokens.update(zip(((code, whole) for code in new), made, strict=True))
        return tuple(self._tokens[one] for one in under)

    def _under(self, exponent: int, points: Sequence[bytes]) -> list[tuple[bytes, int]]:
        known = [self._behind.get(x, (x, 1)) for x in points]
        return [(code, product * exponent % ORDER) for code, product in known]


def _point(x: bytes) -> ec.EllipticCurvePublicKey:
    return ec.EllipticCurvePublicKey.from_encoded_point(_CURVE, b"\x02" + x)


def _is_point(x: bytes) -> bool:
    try:
        _point(x)
    except ValueError:
        return False
    return True


CURVE = Curve()


@dataclass(frozen=True)
class OwnList:
    """One hospital's codes of a mode on their way: padded, in an order that says nothing."""

    codes: tuple[str | None, ...]  # None: padding
    points: Points  # under the fresh exponent
    fresh: int

    def finished(
        self, returned: Sequence[bytes], exponent: int, curve: Curve = CURVE, *, where: str
    ) -> Points:
        """Tokens in the order of ``codes``, once every other hospital hid the points."""
        if len(returned) != len(self.codes) or len(set(returned)) != len(returned):
            raise BadMessage("a list that came back with other points", where=where)
        last = exponent * pow(self.fresh, -1, ORDER) % ORDER
        return curve.finish(last, returned, where=where)


def own_list(
    study: bytes, mode: str, codes: Sequence[str], entropy: Entropy, curve: Curve = CURVE
) -> OwnList:
    """A hospital's codes as they leave it."""
    secret = entropy(f"tokens/{mode}")
    fresh = exponent_of(expand(secret, b"fresh"), study)
    padding = [expand(secret, b"pad%d" % n).hex() for n in range(-len(codes) % PAD_TO)]
    named = [(point_of(study, mode, code), code) for code in codes]
    filled = [(point_of(study, "padding", pad), None) for pad in padding]
    hidden = curve.hide(fresh, [x for x, _ in named + filled], where=mode)
    paired = sorted(zip(hidden, [*codes, *(None for _ in padding)], strict=True), key=_first)
    return OwnList(tuple(code for _, code in paired), tuple(x for x, _ in paired), fresh)


def _first(pair: tuple[bytes, str | None]) -> bytes:
    return pair[0]


def pack(points: Sequence[bytes]) -> bytes:
    """Points in their order, as they travel."""
    return b"".join(points)


def read(data: bytes, *, where: str) -> Points:
    """Points as they stand."""
    if len(data) % POINT_BYTES or len(data) > POINT_BYTES * MOST_TOKENS:
        raise BadMessage("a list of tokens of the wrong length", where=where)
    return tuple(data[at : at + POINT_BYTES] for at in range(0, len(data), POINT_BYTES))


def _increasing(data: bytes, *, where: str) -> Points:
    found = read(data, where=where)
    if any(a >= b for a, b in pairwise(found)):
        raise BadMessage("tokens are not sorted, or stand twice", where=where)
    return found


def released(tokens: Sequence[bytes]) -> bytes:
    """Finished tokens as the coordinator gets them: sorted, so that their order says nothing."""
    return pack(sorted(tokens))


def unite(lists: Sequence[bytes]) -> bytes:
    """The coordinator's part: the sorted union of all lists."""
    each = [_increasing(data, where=f"list {n}") for n, data in enumerate(lists, 1)]
    return pack(sorted(set().union(*each)))


def ranks(union: bytes, tokens: Sequence[bytes], *, where: str) -> np.ndarray:
    """Where these tokens stand in the union: strictly increasing, and all of them there."""
    found = _increasing(union, where=where)
    places = [bisect_left(found, token) for token in tokens]
    held = (
        place < len(found) and found[place] == t for place, t in zip(places, tokens, strict=True)
    )
    if not all(held):
        raise BadMessage("the union lacks a token of this hospital", where=where)
    return np.array(places, dtype=np.int64)


def hops(names: Sequence[str]) -> list[list[tuple[str, str, str]]]:
    """For each round, who sends whose list to whom: (owner, sender, receiver).

    A list goes round the ring once, so K rounds, and every hospital is at work in each.
    """
    ring = len(names)
    return [
        [(names[n], names[(n + stage) % ring], names[(n + stage + 1) % ring]) for n in range(ring)]
        for stage in range(ring)
    ]
