"""Whom a hospital shares its masks with: fresh keys for every run, signed, on one transcript.

Three short rounds through the server, which can read all of it and use none of it:

1. ``keys/announce``: the server shows a fresh key of its own, each hospital answers with a fresh
   X25519 public key, signed together with the server's under its long-term key;
2. ``keys/confirm``: each gets all of them, checks every signature against the roster it agreed to
   out of band, and signs the hash of the whole (the transcript);
3. ``keys/agree``: each checks that all signed the same transcript.

Then two hospitals share HKDF(X25519, salt = transcript), which nobody else can compute. With the
server each shares a key that proves who sent a message and that it arrived unchanged.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from tripheno.errors import BadMessage, BadSignature

PROTOCOL = b"tripheno secure sums 1"
KEY_BYTES = 32
SIGNATURE_BYTES = 64
LARGEST_KEY_MESSAGE = 1 << 20

Entropy = Callable[[str], bytes]
"""32 secret bytes for a purpose: from the operating system, or from a seed in simulations."""


def from_system(purpose: str) -> bytes:
    """Bytes of the operating system, never the same twice."""
    del purpose
    return os.urandom(KEY_BYTES)


def from_seed(seed: int, run: str) -> Entropy:
    """Bytes that a seed gives: for simulations and tests, whose runs are to be compared."""
    return lambda purpose: hashlib.sha256(f"{seed}|{run}|{purpose}".encode()).digest()


def expand(secret: bytes, info: bytes) -> bytes:
    """HKDF-Expand (RFC 5869, SHA-256) for one block of 32 bytes."""
    return hmac.digest(secret, info + b"\x01", "sha256")


def extract(salt: bytes, material: bytes) -> bytes:
    """HKDF-Extract (RFC 5869, SHA-256)."""
    return hmac.digest(salt, material, "sha256")


@dataclass(frozen=True)
class Identity:
    """A hospital's long-term key. Its public half's fingerprint is compared out of band."""

    key: Ed25519PrivateKey

    @classmethod
    def from_bytes(cls, secret: bytes) -> Identity:
        """The identity that 32 secret bytes make."""
        return cls(Ed25519PrivateKey.from_private_bytes(secret))

    @property
    def public(self) -> bytes:
        """The public half, 32 bytes."""
        return self.key.public_key().public_bytes_raw()

    @property
    def fingerprint(self) -> str:
        """What two people read to each other."""
        return fingerprint_of(self.public)

    def sign(self, purpose: bytes, data: bytes) -> bytes:
        """A signature that is good for one purpose only."""
        return self.key.sign(_bound(purpose, data))


def fingerprint_of(public: bytes) -> str:
    """SHA-256 of a public key, in hexadecimal."""
    return hashlib.sha256(public).hexdigest()


def check_signature(
    public: bytes, purpose: bytes, data: bytes, signature: bytes, where: str
) -> None:
    """Refuse what was not signed with this key for this purpose."""
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, _bound(purpose, data))
    except (InvalidSignature, ValueError):
        raise BadSignature(
            "the signature is not this hospital's for this message", where=where
        ) from None


def _bound(purpose: bytes, data: bytes) -> bytes:
    return PROTOCOL + b"|" + purpose + b"|" + hashlib.sha256(data).digest()


@dataclass(frozen=True)
class Roster:
    """Who takes part, frozen for the run: names in order and their long-term public keys."""

    run: str
    members: tuple[tuple[str, bytes], ...]

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The hospitals, in the order that decides who adds a mask and who subtracts it."""
        return tuple(name for name, _ in self.members)

    @cached_property
    def keys(self) -> dict[str, bytes]:
        """Name → long-term public key."""
        return dict(self.members)

    def index(self, name: str) -> int:
        """A hospital's place."""
        return self.names.index(name)

    @cached_property
    def digest(self) -> bytes:
        """One hash of run, names and keys."""
        members = [[name, key.hex()] for name, key in self.members]
        return hashlib.sha256(_json({"run": self.run, "members": members})).digest()


class KeyDesk:
    """A hospital's side of the key agreement. Every answer is the same when asked again."""

    def __init__(self, name: str, identity: Identity, roster: Roster, entropy: Entropy) -> None:
        self.name, self.identity, self.roster = name, identity, roster
        self._private = X25519PrivateKey.from_private_bytes(entropy("x25519"))
        self.own_secret = expand(entropy("overflow"), b"overflow" + roster.digest)
        self._server: bytes | None = None
        self._transcript: bytes | None = None
        self._peers: dict[str, bytes] = {}
        self.secrets: dict[str, bytes] = {}
        self.server_secret = b""

    @property
    def ready(self) -> bool:
        """Whether every hospital confirmed the same transcript."""
        return bool(self.secrets) or (self._transcript is not None and len(self.roster.names) == 1)

    def answer(self, step: str, data: bytes) -> bytes:
        """One of the three rounds."""
        if step == "keys/announce":
            return self._announce(data)
        if step == "keys/confirm":
            return self._confirm(data)
        if step == "keys/agree":
            return self._agree(data)
        raise BadMessage("unknown step of the key agreement", where=f"{self.name}, {step[:40]}")

    def _announce(self, server: bytes) -> bytes:
        if len(server) != KEY_BYTES or self._server not in (None, server):
            raise BadMessage("the server's key is malformed or a second one", where=self.name)
        self._server = server
        public = self._private.public_key().public_bytes_raw()
        self.server_secret = server_secret(self._private, server, self.roster, self.name, "server")
        signature = self.identity.sign(b"announce", self.roster.digest + server + public)
        return public + signature

    def _confirm(self, data: bytes) -> bytes:
        if self._server is None:
            raise BadMessage("keys are confirmed before they were announced", where=self.name)
        peers = read_bundle(data, self.roster, where=f"{self.name}, key announcements")
        for name, public in self.roster.members:
            check_announcement(peers[name], public, self.roster, self._server, name)
        if peers[self.name] != self._announce(self._server):
            raise BadMessage("its own key was exchanged on the way", where=self.name)
        transcript = hashlib.sha256(PROTOCOL + self.roster.digest + data).digest()
        if self._transcript is not None and transcript != self._transcript:
            raise BadMessage("a second transcript in one run", where=self.name)
        self._transcript, self._peers = transcript, peers
        return self.identity.sign(b"transcript", transcript)

    def _agree(self, data: bytes) -> bytes:
        if self._transcript is None:
            raise BadMessage("keys are agreed on before they were confirmed", where=self.name)
        signatures = read_bundle(data, self.roster, where=f"{self.name}, key confirmations")
        for name, public in self.roster.members:
            check_signature(public, b"transcript", self._transcript, signatures[name], where=name)
        for name in self.roster.names:
            if name != self.name:
                self.secrets[name] = self._pair_secret(self._peers[name][:KEY_BYTES], name)
        return b""

    def _pair_secret(self, public: bytes, name: str) -> bytes:
        assert self._transcript is not None
        first, second = sorted([self.name, name], key=self.roster.index)
        shared = _exchange(self._private, public, name)
        return expand(extract(self._transcript, shared), _json(["pair", first, second]))


def server_secret(
    private: X25519PrivateKey, public: bytes, roster: Roster, hospital: str, peer: str
) -> bytes:
    """The key under which a hospital's messages to the server are authenticated."""
    shared = _exchange(private, public, peer)
    return expand(extract(roster.digest, shared), _json(["server", hospital]))


def _exchange(private: X25519PrivateKey, public: bytes, name: str) -> bytes:
    try:
        return private.exchange(X25519PublicKey.from_public_bytes(public))
    except ValueError:
        raise BadMessage("its key is degenerate", where=name) from None


def check_announcement(
    message: bytes, public: bytes, roster: Roster, server: bytes, name: str
) -> None:
    """Refuse a fresh key that the hospital of that name did not sign for this run and server."""
    if len(message) != KEY_BYTES + SIGNATURE_BYTES:
        raise BadMessage("a key announcement of the wrong length", where=name)
    key, signature = message[:KEY_BYTES], message[KEY_BYTES:]
    check_signature(public, b"announce", roster.digest + server + key, signature, where=name)


def bundle(parts: Mapping[str, bytes]) -> bytes:
    """Every hospital's part as one message that all of them get."""
    return _json({name: part.hex() for name, part in parts.items()})


def read_bundle(
    data: bytes, roster: Roster, where: str, *, most: int = LARGEST_KEY_MESSAGE
) -> dict[str, bytes]:
    """Each hospital's part, if all are there and nobody else's, in no more bytes than may be."""
    if len(data) > most:
        raise BadMessage(
            f"{len(data):,} bytes are more than the {most:,} there may be", where=where
        )
    try:
        parts = {name: bytes.fromhex(part) for name, part in json.loads(data).items()}
    except (ValueError, AttributeError, TypeError, RecursionError):
        raise BadMessage("cannot be read", where=where) from None
    if set(parts) != set(roster.names):
        raise BadMessage("the hospitals are not the roster's", where=where)
    return parts


def _json(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
