"""What a hospital's process and the coordinator say to each other around the study's bytes.

A step is named ``attempt:number``. Step 0 of an attempt is the coordinator's *hello*; every later
one brings the answer to the step before. A hospital's answer is a frame: what the coordinator is to
do with the bytes (``sum``, ``gather``, ``unite``, ``release``, ``countersign``, ``done``), the
study's own name of the step, and the bytes.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, Self

from tripheno import __version__
from tripheno.errors import BadMessage, OtherProtocol
from tripheno.federation.relay import frame, read_frame
from tripheno.protocol.agreed import StudyProtocol, protocol_hash

LARGEST_TEXT = 1 << 22
DONE, COUNTERSIGN = "done", "countersign"
OPERATIONS = ("sum", "gather", "unite", "release", COUNTERSIGN, DONE)
_RUN = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")
_HEXADECIMAL = re.compile(r"[0-9a-f]{0,64}")
_VERSION = re.compile(r"[0-9A-Za-z.+!_-]{1,40}")
_STEP = re.compile(r"([0-9]{1,9}):([0-9]{1,9})")


@dataclass(frozen=True)
class Asked:
    """A hospital's answer: what is to be done, in which step, with which bytes."""

    how: str
    step: str
    data: bytes

    def pack(self) -> bytes:
        """As bytes."""
        return frame(f"{self.how} {self.step}", self.data)

    @classmethod
    def unpack(cls, message: bytes, where: str) -> Self:
        """From bytes, checked."""
        word, data = read_frame(message)
        how, _, step = word.partition(" ")
        if how not in OPERATIONS or len(step) > 200:
            raise BadMessage("asks for something a coordinator does not do", where=where)
        return cls(how, step, data)


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
            made = cls(
                str(found["run"]), int(found["attempt"]), str(found["protocol"]),
                str(found["coordinator"]), str(found["version"]),
            )  # fmt: skip
            plain = _VERSION.fullmatch(made.version) is not None and all(
                _HEXADECIMAL.fullmatch(word) for word in (made.protocol, made.coordinator)
            )
            if not plain:  # people are shown it: not at any length, and nothing a terminal obeys
                raise ValueError
            return made
        except (KeyError, ValueError, TypeError, OverflowError):  # JSON knows infinity
            raise BadMessage("cannot be read", where="hello") from None


def check_agreement(protocol: StudyProtocol, hello: Hello, where: str) -> None:
    """Refuse a coordinator with another study or another version than ours."""
    own = protocol_hash(protocol)
    if hello.protocol != own:
        raise OtherProtocol(
            f"another federation.toml: {hello.protocol[:12]}… there, {own[:12]}… here",
            where=where,
            fix="send everyone the same federation.toml",
        )
    if hello.version != __version__:
        raise OtherProtocol(
            f"tripheno {hello.version} there, {__version__} here",
            where=where,
            fix="install the same version everywhere",
        )


def split_step(step: str) -> tuple[int, int]:
    """The attempt and the number of a step."""
    found = _STEP.fullmatch(step)
    if found is None:
        raise BadMessage("a step without its attempt and number", where="a step")
    return int(found[1]), int(found[2])
