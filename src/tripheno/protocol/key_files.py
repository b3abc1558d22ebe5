"""Long-term Ed25519 keys in files: private ones only their owner can read."""

from __future__ import annotations

import os
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)

from tripheno.errors import BadKeyFile, OutputExists
from tripheno.exchange.keys import Identity

LARGEST = 10_000


def public_path(private: Path) -> Path:
    """Where the public half lies: beside the private one."""
    return private.with_name(private.stem + ".pub")


def make_identity(path: Path) -> Identity:
    """A new key of the operating system's randomness, in a file of mode 0600, and its public half.

    Nothing is overwritten: a lost key cannot be made again.
    """
    if path.exists():
        raise OutputExists(f"{path} holds a key already", fix="use it, or name another file")
    identity = Identity(Ed25519PrivateKey.generate())
    private = identity.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    public = identity.key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(private)
    public_path(path).write_bytes(public)
    return identity


def read_identity(path: Path) -> Identity:
    """The private key in a file that nobody else may read."""
    data = _read(path)
    if os.name == "posix" and path.stat().st_mode & 0o077:  # Windows has lists of rights instead
        raise BadKeyFile(
            "others on this machine can read the key", where=str(path), fix=f"chmod 600 {path}"
        )
    try:
        key = load_pem_private_key(data, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise BadKeyFile("no private key (PEM)", where=str(path)) from None
    if not isinstance(key, Ed25519PrivateKey):
        raise BadKeyFile("not an Ed25519 key", where=str(path))
    return Identity(key)


def _read(path: Path) -> bytes:
    if not path.is_file():
        raise BadKeyFile("no such key file", where=str(path), fix="make one, or name another")
    with path.open("rb") as stream:
        return stream.read(LARGEST)
