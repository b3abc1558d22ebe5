"""A hospital's audit log on its own disk, whose heads another machine countersigns.

A line is on disk before the message it tells of leaves. After a crash the log goes on where it
stopped; a last line that was cut short is taken off, for its message never left. A log that no
longer reaches its last countersigned head is an error, here and at the coordinator.
"""

from __future__ import annotations

import json
import os
import re
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock
from typing import Any

from tripheno.errors import BadMessage, BrokenChain, DiskFailed
from tripheno.exchange.keys import SIGNATURE_BYTES, Identity, check_signature
from tripheno.files import append_line, write_text
from tripheno.privacy.audit import (
    COUNTERSIGNED,
    SIGNED,
    START,
    Head,
    Recorder,
    canonical,
    head_bytes,
    line_hash,
    read_head,
)

HEAD_FILE = "audit.head.json"
_HASH = re.compile("[0-9a-f]{64}")
GIVEN = b"sums 2 countersigned heads"
OLDER_BACKUP = (
    "was this hospital restored from an older backup? put a newer one back there; "
    "or give this run up with `tripheno run --abort` and begin a new one"
)


class AuditFile(Recorder):
    """``audit.jsonl`` of one run: opened, or gone on with."""

    def __init__(self, path: Path, run: str, keeper: Identity, coordinator: bytes) -> None:
        self.path, self._keeper, self._coordinator = path, keeper, coordinator
        self.lines: list[str] = []
        self._last, self._writing = START, Lock()  # a refusal may come between two messages
        opening = {
            "kind": "open", "run": run, "keeper": keeper.public.hex(),
            "coordinator": coordinator.hex(),
        }  # fmt: skip
        if path.is_file():
            self._go_on(opening)
        self._check_kept()
        if not self.lines:
            self.write(opening)

    def _go_on(self, opening: dict[str, Any]) -> None:
        data = self.path.read_bytes()
        whole = data[: data.rfind(b"\n") + 1]
        if len(whole) < len(data):
            os.truncate(self.path, len(whole))
        for number, line in enumerate(whole.decode("utf-8", "replace").splitlines(), start=1):
            try:
                entry = json.loads(line)
                follows = entry["prev"] == self._last
            except (ValueError, KeyError, TypeError, RecursionError):
                follows = False
            if not follows:
                raise BrokenChain("does not follow the line before it", where=f"line {number}")
            if number == 1 and any(entry.get(name) != opening[name] for name in opening):
                raise BrokenChain("is another run's log, or under other keys", where="line 1")
            self.lines.append(line)
            self._last = line_hash(line)

    def _check_kept(self) -> None:
        """The log must still hold everything up to the last head that was countersigned."""
        copy = self.path.with_name(HEAD_FILE)
        if not copy.is_file():
            return
        kept = read_head(copy.read_text(encoding="utf-8", errors="replace"))
        if kept.lines > len(self.lines):
            raise BrokenChain(
                f"the log has {len(self.lines):,} lines, its last head {kept.lines:,}",
                where=self.path.name, fix=OLDER_BACKUP,
            )  # fmt: skip
        if kept.lines < 1 or line_hash(self.lines[kept.lines - 1]) != kept.hash:
            raise BrokenChain("is not the log whose head was kept", where=f"line {kept.lines}")

    def write(self, entry: dict[str, Any]) -> None:
        """One more line, on disk before anything else happens."""
        if entry["kind"] != "head":  # a head is what was signed, and nothing beside it
            entry = {**entry, "at": datetime.now(UTC).isoformat("T", "seconds")}
        with self._writing:
            text = canonical({**entry, "n": len(self.lines) + 1, "prev": self._last})
            try:
                self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                append_line(self.path, text, mode=0o600, sync=True)
            except OSError as fault:
                why = fault.strerror or ""
                raise DiskFailed("the audit log cannot be written", why=why) from None
            self.lines.append(text)
            self._last = line_hash(text)

    # ── heads ─────────────────────────────────────────────────────────────────────────────────

    def offer_head(self, *, last: bool) -> bytes:
        """The head of this moment with this hospital's signature, for the coordinator."""
        if last:
            self.write({"kind": "close"})
        signed = head_bytes(len(self.lines), self._last)
        return head_offer(len(self.lines), self._last, self._keeper.sign(SIGNED, signed))

    @property
    def countersigned(self) -> bool:
        """Whether there is a coordinator's key: then a head without its signature is none."""
        return bool(self._coordinator)

    def countersignatures(self, data: bytes) -> bytes:
        """What the coordinator gave to all hospitals, if it signed the whole of it."""
        given, signature = data[:-SIGNATURE_BYTES], data[-SIGNATURE_BYTES:]
        check_signature(self._coordinator, GIVEN, given, signature, where="audit heads")
        return given

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
        write_text(self.path.with_name(HEAD_FILE), json.dumps(head.to_dict(), indent=2) + "\n")
        return head


def head_offer(lines: int, last: str, signature: bytes) -> bytes:
    """A head and its hospital's signature, as they leave."""
    return json.dumps({"lines": lines, "hash": last, "signature": signature.hex()}).encode()


def countersigned(
    name: str, offered: bytes, public: bytes, coordinator: Identity, kept: Head | None = None
) -> Head:
    """The coordinator's side: a hospital's head, checked against the last one kept, and signed."""
    try:
        claim = dict(json.loads(offered))
        lines, last, signature = int(claim["lines"]), str(claim["hash"]), str(claim["signature"])
        given = bytes.fromhex(signature)
        if head_offer(lines, last, given) != offered or not _HASH.fullmatch(last):
            raise ValueError
    except (KeyError, ValueError, TypeError, RecursionError, OverflowError):
        raise BadMessage("a head that cannot be read", where=name) from None
    signed = head_bytes(lines, last)
    check_signature(public, SIGNED, signed, given, where=f"{name}, audit head")
    if kept is not None and lines < kept.lines:
        shrank = f"the log shrank from {kept.lines:,} to {lines:,} lines"
        raise BrokenChain(shrank, where=name, fix=OLDER_BACKUP)
    if kept is not None and lines == kept.lines and last != kept.hash:
        raise BrokenChain("two logs of the same length", where=name, fix=OLDER_BACKUP)
    return Head(lines, last, signature, coordinator.sign(COUNTERSIGNED, signed).hex())
