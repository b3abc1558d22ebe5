"""Long-term keys of hospitals, what they sign, and how secrets become keys."""

from __future__ import annotations

import hashlib
import hmac
import os
from collections.abc import Callable
from dataclasses import dataclass

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from tripheno.errors import BadSignature

PROTOCOL = b"tripheno secure sums 1"
KEY_BYTES = 32
SIGNATURE_BYTES = 64

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
