"""A key that all hospitals hold and the server does not: made of encrypted shares it passes on.

Every hospital draws a share, encrypts it for each peer under the secret the two have
(:mod:`tripheno.exchange.keys`), and the key is the hash of all shares: nobody chose it alone.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from tripheno.errors import BadMessage, BadSignature
from tripheno.exchange.channel import Channel
from tripheno.exchange.keys import Entropy, KeyDesk, bundle, expand, read_bundle

NONCE = bytes(12)  # every key below encrypts one message only


class HospitalKeyDesk:
    """A hospital's side: the steps ``keys/…`` and ``share/…``."""

    def __init__(self, keys: KeyDesk, entropy: Entropy) -> None:
        self.keys, self.name = keys, keys.name
        self._share = entropy("share")
        self.key: bytes | None = None

    def answer(self, step: str, data: bytes) -> bytes:
        """One round of the agreement."""
        if step.startswith("keys/"):
            return self.keys.answer(step, data)
        if step == "share/give":
            return self._give()
        if step == "share/take":
            return self._take(data)
        raise BadMessage(f"unknown step '{step[:40]}'", where=self.name)

    def _give(self) -> bytes:
        if not self.keys.ready:
            raise BadMessage("shares are asked for before keys were agreed on", where=self.name)
        sealed = {
            name: encrypt(secret, f"share {self.name}", self._share).hex()
            for name, secret in self.keys.secrets.items()
        }
        return json.dumps(sealed, sort_keys=True).encode()

    def _take(self, data: bytes) -> bytes:
        roster = self.keys.roster
        given = read_bundle(data, roster, where=f"{self.name}, shares")
        shares = {self.name: self._share}
        for name, secret in self.keys.secrets.items():
            try:
                sealed = bytes.fromhex(json.loads(given[name])[self.name])
            except (ValueError, KeyError, TypeError, RecursionError):
                raise BadMessage("its shares cannot be read", where=name) from None
            shares[name] = decrypt(secret, f"share {name}", sealed, where=name)
        together = b"".join(shares[name] for name in roster.names)
        self.key = hashlib.sha256(b"hospital key" + roster.digest + together).digest()
        return b""


def agree_on_hospital_key(channel: Channel) -> None:
    """The server's side: it passes shares on and can open none."""
    given = channel.round("share/give", b"")
    channel.round("share/take", bundle(given))


def encrypt(secret: bytes, purpose: str, data: bytes) -> bytes:
    """AES-256-GCM under a key for one purpose, good for one message."""
    return AESGCM(expand(secret, purpose.encode())).encrypt(NONCE, data, None)


def decrypt(secret: bytes, purpose: str, data: bytes, where: str) -> bytes:
    """What was encrypted for this purpose, or a refusal."""
    try:
        return AESGCM(expand(secret, purpose.encode())).decrypt(NONCE, data, None)
    except (InvalidTag, ValueError):
        raise BadSignature("was changed on its way, or is for somebody else", where=where) from None


def for_each(secrets: Mapping[str, bytes], purpose: str, parts: Mapping[str, bytes]) -> bytes:
    """One broadcast in which each hospital can read its own part only."""
    return bundle({name: encrypt(secrets[name], purpose, part) for name, part in parts.items()})
