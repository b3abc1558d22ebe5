"""Common axes without code lists: the server unites opaque tokens.

A token is HMAC-SHA256 of mode and code, 128 bits, under a key that only hospitals hold. The server
unites the tokens, **shuffles** the union with a CSPRNG (in sorted order a hospital could guess
others' codes from the gaps between its own), and tells each hospital, for it alone to read, where
its own tokens stand and how long the axis is. Two hospitals with the same code find it at the same
position; nobody learns a code it does not have. This exchange is no sum, and is named as such.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CTR

from tripheno.errors import BadMessage
from tripheno.exchange.channel import Channel
from tripheno.exchange.keys import read_bundle
from tripheno.exchange.messages import LARGEST_MESSAGE
from tripheno.exchange.secure import ServerSums
from tripheno.vocabulary.hospital_key import (
    HospitalKeyDesk,
    agree_on_hospital_key,
    decrypt,
    for_each,
)

TOKEN_BYTES = 16
MOST_TOKENS = 1 << 24

Codes = dict[str, tuple[str, ...]]
"""Mode → one hospital's own codes, each once."""


@dataclass(frozen=True)
class Places:
    """What a hospital gets back: the length of each axis, and where its own codes stand on it."""

    sizes: dict[str, int]
    positions: dict[str, np.ndarray]


def tokens_of(key: bytes, mode: str, codes: Sequence[str]) -> list[bytes]:
    """One token a code, in the codes' order."""
    prefix = json.dumps(mode).encode() + b"|"
    return [hmac.digest(key, prefix + c.encode(), "sha256")[:TOKEN_BYTES] for c in codes]


class TokenDesk:
    """A hospital's side: its codes, and what it learns."""

    def __init__(self, codes: Codes, desk: HospitalKeyDesk) -> None:
        self.codes, self.desk, self.name = codes, desk, desk.name
        self.places: Places | None = None

    def answer(self, step: str, data: bytes) -> bytes:
        """One round."""
        if step == "tokens/list":
            return self._list()
        if step == "tokens/places":
            return self._read_places(data)
        return self.desk.answer(step, data)

    def _tokens(self) -> dict[str, list[bytes]]:
        if self.desk.key is None:
            raise BadMessage("tokens are asked for before there is a key", where=self.name)
        return {mode: tokens_of(self.desk.key, mode, codes) for mode, codes in self.codes.items()}

    def _list(self) -> bytes:
        """All tokens, sorted, so that their order says nothing of the codes'."""
        tokens = {mode: b"".join(sorted(found)).hex() for mode, found in self._tokens().items()}
        return json.dumps(tokens, sort_keys=True).encode()

    def _read_places(self, data: bytes) -> bytes:
        roster = self.desk.keys.roster
        own = read_bundle(data, roster, where=self.name, most=LARGEST_MESSAGE)[self.name]
        plain = decrypt(self.desk.keys.server_secret, "places", own, where=self.name)
        try:
            found = {
                mode: (int(part["size"]), np.array(part["positions"], dtype=np.int64))
                for mode, part in json.loads(plain).items()
            }
        except (ValueError, KeyError, TypeError, OverflowError):
            raise BadMessage("positions that cannot be read", where=self.name) from None
        sizes, positions = {}, {}
        for mode, tokens in self._tokens().items():
            sizes[mode], place = found.get(mode, (0, np.zeros(0, dtype=np.int64)))
            if len(place) != len(tokens) or (place >= sizes[mode]).any() or (place < 0).any():
                raise BadMessage("positions that fit no axis", where=f"{self.name}, {mode}")
            positions[mode] = np.empty(len(tokens), dtype=np.int64)
            positions[mode][sorted(range(len(tokens)), key=tokens.__getitem__)] = place
        self.places = Places(sizes, positions)
        return b""


def unite_tokens(channel: Channel, keys: ServerSums, secret: bytes) -> dict[str, int]:
    """The server's side of the whole alignment; the size of each axis is all it learns by name.

    ``secret`` seeds the shuffle: 32 bytes of the operating system, or of a simulation's seed.
    """
    keys.agree(channel)
    agree_on_hospital_key(channel)
    lists = {
        name: _read_tokens(data, name) for name, data in channel.round("tokens/list", b"").items()
    }
    modes = {tuple(sorted(tokens)) for tokens in lists.values()}
    if len(modes) != 1:
        raise BadMessage("hospitals have different modes", where="tokens/list")
    places: dict[str, dict[str, dict[str, object]]] = {name: {} for name in lists}
    sizes = {}
    for mode in next(iter(modes)):
        union = sorted({token for tokens in lists.values() for token in tokens[mode]})
        order = _shuffled(len(union), secret, mode)
        where = {token: int(place) for token, place in zip(union, order, strict=True)}
        sizes[mode] = len(union)
        for name, tokens in lists.items():
            found = [where[token] for token in tokens[mode]]
            places[name][mode] = {"size": len(union), "positions": found}
    parts = {name: json.dumps(found).encode() for name, found in places.items()}
    channel.round("tokens/places", for_each(keys.secrets, "places", parts))
    return sizes


def _read_tokens(data: bytes, name: str) -> dict[str, list[bytes]]:
    try:
        found = {mode: bytes.fromhex(text) for mode, text in json.loads(data).items()}
    except (ValueError, AttributeError, TypeError, RecursionError):
        raise BadMessage("its tokens cannot be read", where=name) from None
    tokens = {}
    for mode, block in found.items():
        if len(block) % TOKEN_BYTES or len(block) > TOKEN_BYTES * MOST_TOKENS:
            raise BadMessage("a token list of the wrong length", where=name)
        cut = [block[at : at + TOKEN_BYTES] for at in range(0, len(block), TOKEN_BYTES)]
        if any(a >= b for a, b in pairwise(cut)):
            raise BadMessage("tokens are not sorted, or stand twice", where=name)
        tokens[mode] = cut
    return tokens


def _shuffled(size: int, secret: bytes, mode: str) -> np.ndarray:
    """A permutation nobody can foresee: positions ranked by 128-bit words of an AES stream."""
    key = hmac.digest(secret, b"shuffle" + mode.encode(), "sha256")
    stream = Cipher(AES(key), CTR(bytes(16))).encryptor().update(bytes(16 * size))
    words = np.frombuffer(stream, dtype="<u8").reshape(size, 2)
    order: np.ndarray = np.lexsort((words[:, 1], words[:, 0]))
    return order


def places_by_hospital(desks: Mapping[str, TokenDesk]) -> dict[str, Places]:
    """What every hospital learnt, once the last round is over."""
    found = {}
    for name, desk in desks.items():
        if desk.places is None:
            raise BadMessage("a hospital was not told its positions", where=name)
        found[name] = desk.places
    return found
