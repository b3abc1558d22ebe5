"""Who stands at a hospital's door: the approval before anything leaves, the gate at every message.

Every attempt of a run has a gate of its own for the kinds of messages; rounds and bytes are counted
over the whole run, from the audit log, so that starting again gives nothing back.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime
from pathlib import Path

from tripheno.errors import RunFailed
from tripheno.exchange.keys import Identity
from tripheno.federation.audit_file import AuditFile
from tripheno.federation.axes import known_codes
from tripheno.privacy.approval import check_approval
from tripheno.privacy.gate import Gate
from tripheno.privacy.labels import answer_labels
from tripheno.privacy.manifest import Manifest
from tripheno.protocol.agreed import Protocol
from tripheno.protocol.site import Site
from tripheno.tensor.count_tensor import CountTensor
from tripheno.vocabulary.axis import Axis


def today() -> date:
    """The day on which an approval must still be good."""
    return datetime.now(UTC).date()


class Doorkeeper:
    """No door at all: for tests. The real one is :class:`ApprovedDoor`."""

    def check(self) -> None:
        """Raise if nothing may leave."""

    def begin(self, run: str, tensor: CountTensor, coordinator: bytes) -> None:
        """An attempt begins, with the hospital's own tensor and the coordinator's public key."""

    def resize(self, sizes: dict[str, int]) -> None:
        """The axes have other sizes from now on."""

    def pass_out(self, step: str, broadcast: bytes, answer: bytes) -> bytes:
        """The answer, if it may leave."""
        del step, broadcast
        return answer

    def names(self, question: bytes, axes: Sequence[Axis]) -> bytes:
        """Names of codes in the final phenotypes, or nothing where that was not approved."""
        del question, axes
        return b""

    def offer_head(self, *, last: bool) -> bytes:
        """Where the audit log stands, signed."""
        del last
        raise RunFailed("there is no audit log")

    def take_countersignature(self, countersignature: str) -> None:
        """The coordinator's signature under it."""
        del countersignature
        raise RunFailed("there is no audit log")


class ApprovedDoor(Doorkeeper):
    """The gate of an approved manifest, and its audit log."""

    def __init__(
        self,
        protocol: Protocol,
        site: Site,
        identity: Identity,
        day: Callable[[], date] = today,
    ) -> None:
        self.protocol, self.site, self.identity, self._day = protocol, site, identity, day
        self._gate: Gate | None = None
        self._log: AuditFile | None = None

    def approved(self) -> Manifest:
        """The manifest, if it is approved today."""
        return check_approval(self.protocol, self.site, self._day())

    def check(self) -> None:
        """Refuse (exit 4) without a valid approval."""
        self.approved()

    def begin(self, run: str, tensor: CountTensor, coordinator: bytes) -> None:
        """A new gate for a new attempt; what was spent before stays spent."""
        manifest = self.approved()
        path = run_folder(self.site, run) / "audit.jsonl"
        log = self._log = AuditFile(path, run, self.identity, coordinator)
        own = {axis.mode: axis.size for axis in tensor.axes}
        listed = {one.mode: len(one.codes) for one in self.protocol.lists}
        sizes = listed if self.protocol.alignment == "vocabulary" else own
        messages, sent = spent(log.lines)
        self._gate = Gate(
            self.site.name, manifest.messages, sizes, log,
            most_rounds=manifest.most_rounds - messages,
            most_bytes=manifest.most_bytes - sent,
            own_codes=own,
        )  # fmt: skip

    def resize(self, sizes: dict[str, int]) -> None:
        """Shapes follow from the axes."""
        if self._gate is not None:
            self._gate.sizes = sizes

    def pass_out(self, step: str, broadcast: bytes, answer: bytes) -> bytes:
        """Through the gate."""
        if self._gate is None:
            raise RunFailed("a message before the door was opened", where=self.site.name)
        return self._gate.pass_out(step, broadcast, answer)

    def names(self, question: bytes, axes: Sequence[Axis]) -> bytes:
        """Of the codes this hospital has, if its officer approved their release."""
        manifest = self.approved()
        return (
            answer_labels(question, known_codes(axes), axes, manifest) if manifest.labels else b""
        )

    def offer_head(self, *, last: bool) -> bytes:
        """Of the log of this run."""
        return self._opened().offer_head(last=last)

    def take_countersignature(self, countersignature: str) -> None:
        """Into the log of this run."""
        self._opened().take_countersignature(countersignature)

    def _opened(self) -> AuditFile:
        if self._log is None:
            raise RunFailed("a head before the door was opened", where=self.site.name)
        return self._log


def spent(lines: list[str]) -> tuple[int, int]:
    """Messages that left so far, and their bytes."""
    messages = sent = 0
    for line in lines:
        entry = json.loads(line)
        if entry.get("kind") == "message" and entry.get("direction") == "out" and entry["bytes"]:
            messages += 1
            sent += entry["bytes"]
    return messages, sent


def run_folder(site: Site, run: str) -> Path:
    """Where a hospital keeps what it knows of a run."""
    return site.state / "runs" / run
