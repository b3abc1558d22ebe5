"""What went in and out, line by line, so that nobody can change the record unnoticed.

A log is lines of canonical JSON (RFC 8785). Each line holds the hash of the one before it, so that
changing, dropping or inserting a line breaks the chain from there on. After every round a *head*
(how many lines, and the last hash) is signed by the keeper of the log and countersigned by the
coordinator, who keeps the last head: a log whose tail was cut no longer reaches it. Lines hold
hashes and sizes of messages, never their content.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from tripheno.errors import BadSignature, BrokenChain
from tripheno.exchange.keys import Identity, check_signature, fingerprint_of
from tripheno.exchange.registry import Declaration, MessagePlan, register

START = "0" * 64
SIGNED, COUNTERSIGNED = b"audit head", b"audit countersignature"
LARGEST_EXACT = 2**53
HEAD_FIELDS = {"lines", "hash", "signature", "countersignature"}

Clock = Callable[[], str]


def _heads(plan: MessagePlan) -> int:
    return (plan.fits * plan.iterations + 1) * int(plan.machines)


AUDIT_HEAD = register(
    Declaration(
        "audit-head", "release", "none: lines of the audit log, their hash, a signature", (),
        _heads, lambda _plan, _codes: 512,
    )
)  # fmt: skip


def canonical(value: Any) -> str:
    """JSON with one spelling (RFC 8785) for text, whole numbers, truth values, lists and objects.

    Fractions have no place in a log and are refused.
    """
    if isinstance(value, dict):
        keys = sorted(value, key=lambda key: str(key).encode("utf-16-be", "surrogatepass"))
        return "{" + ",".join(f"{canonical(str(k))}:{canonical(value[k])}" for k in keys) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(canonical, value)) + "]"
    if isinstance(value, float) or (isinstance(value, int) and abs(value) > LARGEST_EXACT):
        raise TypeError("a log holds whole numbers that every reader can hold")
    if value is None or isinstance(value, bool | int | str):
        return json.dumps(value, ensure_ascii=False)
    raise TypeError(f"a log cannot hold a {type(value).__name__}")


def line_hash(text: str) -> str:
    """SHA-256 of a line."""
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True)
class Head:
    """Where a log stands, signed by its keeper and countersigned by the coordinator."""

    lines: int
    hash: str
    signature: str
    countersignature: str

    def to_dict(self) -> dict[str, Any]:
        """As plain values."""
        return {
            "lines": self.lines,
            "hash": self.hash,
            "signature": self.signature,
            "countersignature": self.countersignature,
        }


def entry_of(step: str, hospital: str, direction: str, data: bytes) -> dict[str, Any]:
    """The line about a message: its size and hash, never its content."""
    return {
        "kind": "message", "hospital": hospital, "step": step, "direction": direction,
        "bytes": len(data), "blake2b": message_hash(data),
    }  # fmt: skip


def refusal_of(step: str, hospital: str, reason: str) -> dict[str, Any]:
    """The line about a message that was stopped: nothing of it left."""
    return {"kind": "refused", "hospital": hospital, "step": step, "reason": reason}


class Recorder:
    """Writes down what a gate tells; where it goes is its heir's."""

    def write(self, entry: dict[str, Any]) -> None:
        """One more line."""
        raise NotImplementedError

    def sent(self, step: str, hospital: str, data: bytes) -> None:
        """A message that leaves."""
        self.write(entry_of(step, hospital, "out", data))

    def received(self, step: str, hospital: str, data: bytes) -> None:
        """What came back."""
        self.write(entry_of(step, hospital, "in", data))

    def refuse(self, step: str, hospital: str, reason: str) -> None:
        """A message that was stopped."""
        self.write(refusal_of(step, hospital, reason))


class AuditBuffer(Recorder):
    """What passed before a log was opened, to become its first lines."""

    def __init__(self) -> None:
        self.entries: list[dict[str, Any]] = []

    def write(self, entry: dict[str, Any]) -> None:
        """Remember it."""
        self.entries.append(entry)


class AuditLog(Recorder):
    """A log being written. It only grows."""

    def __init__(
        self, run: str, keeper: Identity, coordinator: Identity, clock: Clock = lambda: ""
    ) -> None:
        self._keeper, self._coordinator, self._clock = keeper, coordinator, clock
        self.lines: list[str] = []
        self._last, self._step = START, ""
        self.head: Head | None = None
        keys = {"keeper": keeper.public.hex(), "coordinator": coordinator.public.hex()}
        self.write({"kind": "open", "run": run, **keys})

    def write(self, entry: dict[str, Any]) -> None:
        """One more line."""
        if entry["kind"] != "head":  # a head is what was signed, and nothing beside it
            entry = {**entry, "at": self._clock()}
        text = canonical({**entry, "n": len(self.lines) + 1, "prev": self._last})
        self.lines.append(text)
        self._last = line_hash(text)

    def sent(self, step: str, hospital: str, data: bytes) -> None:
        """A message that leaves; a new step closes a round."""
        if step != self._step and self._step:
            self.sign_head()
        self._step = step
        super().sent(step, hospital, data)

    def take(self, audit_buffer: AuditBuffer) -> None:
        """What passed before this log was opened."""
        for entry in audit_buffer.entries:
            self.write(entry)

    def sign_head(self) -> Head:
        """The head of this moment, signed twice, also as a line of the log."""
        lines, last = len(self.lines), self._last
        signature = self._keeper.sign(SIGNED, head_bytes(lines, last))
        second = self._coordinator.sign(COUNTERSIGNED, head_bytes(lines, last))
        self.head = Head(lines, last, signature.hex(), second.hex())
        self.write({"kind": "head", **self.head.to_dict()})
        return self.head

    def close(self) -> Head:
        """The last line and the head the coordinator keeps; no line follows but that head."""
        self.write({"kind": "close"})
        return self.sign_head()

    def text(self) -> str:
        """The whole log."""
        return "".join(line + "\n" for line in self.lines)


def message_hash(data: bytes) -> str:
    """256-bit BLAKE2b of a message."""
    return hashlib.blake2b(data, digest_size=32).hexdigest()


def head_bytes(lines: int, last: str) -> bytes:
    """What is signed of a head."""
    return canonical({"lines": lines, "hash": last}).encode()


# ── checking ──────────────────────────────────────────────────────────────────────────────────


def verify(
    text: str, kept: Head, *, keeper: str | None = None, coordinator: str | None = None
) -> int:
    """How many lines hold; or :class:`BrokenChain` that names the first line that does not.

    ``kept`` is the coordinator's copy of the last head. The two fingerprints are of the keys agreed
    on; without them the log's own first line is believed, which proves less.
    """
    if not text.endswith("\n"):
        raise BrokenChain("the last line is cut short", where=f"line {text.count(chr(10)) + 1}")
    last, opened, heads = START, {}, {}
    lines = text[:-1].split("\n")
    for number, line in enumerate(lines, start=1):
        entry = _entry(line, number, last)
        if number == 1:
            opened = _keys(entry, keeper, coordinator)
        elif entry.get("kind") == "head":
            _check_head(_head_of(entry, number), number, last, opened)
            heads[entry["lines"]] = entry["hash"]
        last = line_hash(line)
    _check_tail(lines, kept, heads, opened)
    return len(lines)


def _entry(line: str, number: int, last: str) -> dict[str, Any]:
    try:
        entry = json.loads(line)
        spelt = canonical(entry)
    except (ValueError, TypeError, RecursionError):
        raise BrokenChain("cannot be read", where=f"line {number}") from None
    if not isinstance(entry, dict) or spelt != line:
        raise BrokenChain("is not canonical JSON", where=f"line {number}")
    if entry.get("n") != number or entry.get("prev") != last:
        raise BrokenChain("does not follow the line before it", where=f"line {number}")
    return entry


def _keys(entry: dict[str, Any], keeper: str | None, coordinator: str | None) -> dict[str, bytes]:
    try:
        found = {who: bytes.fromhex(entry[who]) for who in ("keeper", "coordinator")}
    except (KeyError, ValueError, TypeError):
        raise BrokenChain("does not open a log", where="line 1") from None
    for who, expected in (("keeper", keeper), ("coordinator", coordinator)):
        if expected is not None and fingerprint_of(found[who]) != expected:
            raise BrokenChain(f"names another {who} than agreed", where="line 1")
    return found


def _head_of(entry: dict[str, Any], number: int) -> Head:
    try:
        head = Head(**{name: entry[name] for name in HEAD_FIELDS})
        bytes.fromhex(head.signature + head.countersignature)
    except (KeyError, ValueError, TypeError):
        raise BrokenChain("is no head", where=f"line {number}") from None
    if not isinstance(head.lines, int) or not isinstance(head.hash, str):
        raise BrokenChain("is no head", where=f"line {number}")
    return head


def _check_head(head: Head, number: int, last: str, keys: dict[str, bytes]) -> None:
    if head.lines != number - 1 or head.hash != last:
        raise BrokenChain("signs another past", where=f"line {number}")
    check_head_signatures(head, keys, f"line {number}")


def check_head_signatures(head: Head, keys: dict[str, bytes], where: str) -> None:
    """Both signatures of a head."""
    signed = head_bytes(head.lines, head.hash)
    parts = (
        ("keeper", SIGNED, head.signature),
        ("coordinator", COUNTERSIGNED, head.countersignature),
    )
    for who, purpose, signature in parts:
        try:
            check_signature(keys[who], purpose, signed, bytes.fromhex(signature), where)
        except (BadSignature, ValueError):
            raise BrokenChain(f"is not signed by the {who}", where=where) from None


def _check_tail(
    lines: Sequence[str], kept: Head, heads: dict[int, str], keys: dict[str, bytes]
) -> None:
    """The log must reach the head the coordinator kept, and end there."""
    check_head_signatures(kept, keys, "the coordinator's head")
    if heads.get(kept.lines) != kept.hash:
        missing = kept.lines + 1 - len(lines)
        if missing > 0:
            raise BrokenChain(f"the tail is cut: {missing} line(s)", where=f"line {len(lines) + 1}")
        raise BrokenChain("is not the log whose head was kept", where=f"line {kept.lines + 1}")
    if len(lines) != kept.lines + 1:
        raise BrokenChain("lines follow the last head", where=f"line {kept.lines + 2}")
    numbered = {"kind": "head", "n": len(lines), "prev": kept.hash}
    if lines[-1] != canonical({**numbered, **kept.to_dict()}):
        raise BrokenChain("is not the head that was kept", where=f"line {len(lines)}")


def read_head(text: str) -> Head:
    """The coordinator's copy of a head, from JSON."""
    try:
        entry = json.loads(text)
        return _head_of(dict(entry), 0)
    except (ValueError, TypeError, RecursionError):
        raise BrokenChain("the kept head cannot be read", where="audit.head.json") from None


def tally(lines: Iterable[str]) -> list[dict[str, Any]]:
    """What went in and out, by hospital and kind of step: messages and bytes."""
    found: dict[tuple[str, str, str], list[int]] = {}
    for line in lines:
        entry = json.loads(line)
        if entry.get("kind") == "message":
            key = (entry["hospital"], entry["step"].split("/")[0], entry["direction"])
            counted = found.setdefault(key, [0, 0])
            counted[0] += 1
            counted[1] += entry["bytes"]
    return [
        {"hospital": hospital, "step": step, "direction": way, "messages": n, "bytes": size}
        for (hospital, step, way), (n, size) in found.items()
    ]
