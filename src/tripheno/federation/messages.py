"""What a federation says besides the solver's messages: greeting, roster, kept codes, the end."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from tripheno import __version__
from tripheno.errors import BadMessage, OtherProtocol
from tripheno.exchange import Broadcast
from tripheno.protocol.agreed import Protocol, protocol_hash

LARGEST_TEXT = 1 << 22
_RUN = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")


def read_json(data: bytes, where: str) -> dict[str, Any]:
    """A small object of plain values."""
    if len(data) > LARGEST_TEXT:
        raise BadMessage(f"{len(data):,} bytes of text", where=where)
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        raise BadMessage("cannot be read", where=where) from None
    if not isinstance(found, dict):
        raise BadMessage("is no object", where=where)
    return found


@dataclass(frozen=True)
class Hello:
    """The coordinator's first word in every attempt: which study, which software, which run."""

    run: str
    attempt: int
    protocol: str
    coordinator: str = ""  # the public key that countersigns audit heads, hexadecimal
    version: str = __version__

    def pack(self) -> bytes:
        """As bytes."""
        return json.dumps(vars(self), sort_keys=True).encode()

    @classmethod
    def unpack(cls, data: bytes) -> Self:
        """From bytes, checked."""
        found = read_json(data, "hello")
        if not _RUN.fullmatch(str(found.get("run"))):
            raise BadMessage("a run whose name cannot be a folder's", where="hello")
        try:
            return cls(
                str(found["run"]), int(found["attempt"]), str(found["protocol"]),
                str(found["coordinator"]), str(found["version"]),
            )  # fmt: skip
        except (KeyError, ValueError, TypeError):
            raise BadMessage("cannot be read", where="hello") from None


@dataclass(frozen=True)
class Here:
    """A hospital's answer: its key, and where it could go on."""

    public: bytes
    protocol: str
    kept: tuple[int, ...]
    version: str = __version__

    def pack(self) -> bytes:
        """As bytes."""
        told = {**vars(self), "public": self.public.hex(), "kept": list(self.kept)}
        return json.dumps(told, sort_keys=True).encode()

    @classmethod
    def unpack(cls, data: bytes, where: str) -> Self:
        """From bytes, checked."""
        found = read_json(data, where)
        try:
            kept = tuple(int(one) for one in found["kept"])
            public = bytes.fromhex(found["public"])
            return cls(public, str(found["protocol"]), kept, str(found["version"]))
        except (KeyError, ValueError, TypeError):
            raise BadMessage("cannot be read", where=where) from None


def check_agreement(protocol: Protocol, other: Hello | Here, where: str) -> None:
    """Refuse a partner with another study or another version than ours."""
    own = protocol_hash(protocol)
    if other.protocol != own:
        raise OtherProtocol(
            f"another federation.toml: {other.protocol[:12]}… there, {own[:12]}… here",
            where=where,
            fix="send everyone the same federation.toml",
        )
    if other.version != __version__:
        raise OtherProtocol(
            f"tripheno {other.version} there, {__version__} here",
            where=where,
            fix="install the same version everywhere",
        )


@dataclass(frozen=True)
class Kept(Broadcast):
    """Which positions of every mode stay: those that enough people in the network have."""

    kept: tuple[np.ndarray, ...]


@dataclass(frozen=True)
class Resume(Broadcast):
    """Go back to the state before this iteration."""

    iteration: int
