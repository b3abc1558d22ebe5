"""A hospital's audit log on its own disk, whose heads another machine countersigns.

A line is on disk before the message it tells of leaves. After a crash the log goes on where it
stopped; a last line that was cut short is taken off, for its message never left.
"""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tripheno.errors import BadMessage, BrokenChain, DiskFailed
from tripheno.exchange.keys import Identity, check_signature
from tripheno.federation.messages import read_json
from tripheno.files import append_line, write_text
from tripheno.privacy.audit import (
    COUNTERSIGNED,
    SIGNED,
    START,
    Head,
    canonical,
    entries_of,
    head_bytes,
    line_hash,
    message_hash,
)


class AuditFile:
    """``audit.jsonl`` of one run: opened, or gone on with."""

    def __init__(self, path: Path, run: str, keeper: Identity, coordinator: bytes) -> None:
        self.path, self._keeper, self._coordinator = path, keeper, coordinator
        self.lines: list[str] = []
        self._last = START
        if path.is_file():
            self._go_on()
        if not self.lines:
            keys = {"keeper": keeper.public.hex(), "coordinator": coordinator.hex()}
            self.write({"kind": "open", "run": run, **keys})

    def _go_on(self) -> None:
        data = self.path.read_bytes()
        whole = data[: data.rfind(b"\n") + 1]
        if len(whole) < len(data):
            os.truncate(self.path, len(whole))
        for number, line in enumerate(whole.decode("utf-8", "replace").splitlines(), start=1):
            try:
                follows = json.loads(line)["prev"] == self._last
            except (ValueError, KeyError, TypeError):
                follows = False
            if not follows:
                raise BrokenChain("does not follow the line before it", where=f"line {number}")
            self.lines.append(line)
            self._last = line_hash(line)

    def write(self, entry: dict[str, Any]) -> None:
        """One more line, on disk before anything else happens."""
        if entry["kind"] != "head":  # a head is what was signed, and nothing beside it
            entry = {**entry, "at": datetime.now(UTC).isoformat("T", "seconds")}
        text = canonical({**entry, "n": len(self.lines) + 1, "prev": self._last})
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            append_line(self.path, text, mode=0o600)
        except OSError as fault:
            raise DiskFailed("the audit log cannot be written", why=fault.strerror or "") from None
        self.lines.append(text)
        self._last = line_hash(text)

    def listen(self, step: str, hospital: str, broadcast: bytes, answer: bytes) -> None:
        """A message in and its answer out."""
        heard = (len(broadcast), message_hash(broadcast))
        for entry in entries_of(step, hospital, heard, answer):
            self.write(entry)

    def refuse(self, step: str, hospital: str, reason: str) -> None:
        """An answer that was stopped."""
        self.write({"kind": "refused", "hospital": hospital, "step": step, "reason": reason})

    # ── heads ─────────────────────────────────────────────────────────────────────────────────

    def offer_head(self, *, last: bool) -> bytes:
        """The head of this moment with this hospital's signature, for the coordinator."""
        if last:
            self.write({"kind": "close"})
        signed = head_bytes(len(self.lines), self._last)
        signature = self._keeper.sign(SIGNED, signed).hex()
        head = {"lines": len(self.lines), "hash": self._last, "signature": signature}
        return json.dumps(head).encode()

    def take_countersignature(self, countersignature: str) -> Head:
        """The head as both signed it: a line of the log, and the coordinator's copy beside it."""
        signed = head_bytes(len(self.lines), self._last)
        try:
            given = bytes.fromhex(countersignature)
        except ValueError:
            raise BadMessage("a countersignature that cannot be read") from None
        check_signature(self._coordinator, COUNTERSIGNED, signed, given, where="audit head")
        own = self._keeper.sign(SIGNED, signed).hex()
        head = Head(len(self.lines), self._last, own, countersignature)
        self.write({"kind": "head", **head.to_dict()})
        copy = self.path.with_name("audit.head.json")
        write_text(copy, json.dumps(head.to_dict(), indent=2) + "\n")
        return head


def countersigned(name: str, offered: bytes, public: bytes, coordinator: Identity) -> Head:
    """The coordinator's side: a hospital's head, checked and countersigned."""
    told = read_json(offered, where=f"{name}, audit head")
    try:
        lines, last, signature = int(told["lines"]), str(told["hash"]), str(told["signature"])
        given = bytes.fromhex(signature)
    except (KeyError, ValueError, TypeError):
        raise BadMessage("a head that cannot be read", where=name) from None
    signed = head_bytes(lines, last)
    check_signature(public, SIGNED, signed, given, where=f"{name}, audit head")
    return Head(lines, last, signature, coordinator.sign(COUNTERSIGNED, signed).hex())
