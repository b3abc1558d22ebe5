"""Who stands at a hospital's gate: the approval and the gate, at every message.

Every attempt of a run has a gate of its own for the kinds of messages. Rounds and bytes are counted
over the whole run, in a file of their own that only grows, so that starting again gives nothing
back. An approval that ran out, was changed, removed or withdrawn stops the very next message.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from tripheno.errors import BadMessage, BrokenChain, NotApproved, RunFailed, TriphenoError
from tripheno.exchange.keys import Identity
from tripheno.exchange.registry import Declaration
from tripheno.federation.audit_file import AuditFile
from tripheno.federation.ledger import Entry, RunLedger
from tripheno.files import append_line
from tripheno.privacy.approval import (
    APPROVAL,
    WITHDRAWAL,
    Approval,
    check_approval,
    days_left,
    read_approval,
)
from tripheno.privacy.audit import AUDIT_HEAD
from tripheno.privacy.faults import FAULT
from tripheno.privacy.gate import Gate
from tripheno.privacy.manifest import MANIFEST, Manifest, listed
from tripheno.protocol.agreed import StudyProtocol
from tripheno.protocol.site import Site
from tripheno.study.message_plan import plan_of_protocol
from tripheno.study.store import write_whole

SPENT = "spent.json"
REFUSALS = "refusals.jsonl"  # of attempts that never opened a log


def today() -> date:
    """The day on which an approval must still be good."""
    return datetime.now(UTC).date()


def days_approved(protocol: StudyProtocol, site: Site) -> int:
    """Days for which a hospital's approval is still good; refused if it is not good today."""
    check_approval(protocol, site, today())
    return days_left(site, today())


class ApprovedGatekeeper:
    """The gate of an approved manifest, its audit log and its budget."""

    def __init__(
        self,
        protocol: StudyProtocol,
        site: Site,
        identity: Identity,
        day: Callable[[], date] = today,
    ) -> None:
        self.protocol, self.site, self.identity, self._day = protocol, site, identity, day
        self._opened: tuple[Gate, AuditFile, Manifest] | None = None
        self._seen: object = None

    def approved(self) -> Manifest:
        """The manifest, if it is approved today; else exit 4."""
        return check_approval(self.protocol, self.site, self._day())

    def begin(self, run: str, codes: Mapping[str, int], coordinator: bytes, data: str) -> Manifest:
        """An attempt begins, on this hospital's own codes: a new gate; what was spent stays spent.

        ``coordinator`` is the public key that countersigns the heads of the audit log, ``data``
        the hashes of what this process read: other data may lie there, and be approved, since.
        """
        seen, manifest = self._state(), self.approved()
        if manifest.data_sha256 != data:
            raise NotApproved(
                "other data were approved than this process has read", where=self.site.name,
                fix="stop `tripheno join`, and start it again",
            )  # fmt: skip
        plan = plan_of_protocol(self.protocol, labels=manifest.labels)
        if listed(plan, manifest.most_codes) != manifest.messages:
            raise NotApproved("the messages are other ones", fix="run `tripheno preview`")
        folder = self.site.run_folder(run)
        path = folder / "audit.jsonl"
        began = (folder / SPENT).is_file() or RunLedger(self.site.state).knows(run)
        if began and not path.is_file():
            raise BrokenChain("the log of what left is gone", where=path.name)
        log = AuditFile(path, run, self.identity, coordinator)
        approval = read_approval(self.site.approval)
        acted = {"officer": approval.officer, "approver": approval.approver}
        log.write({"kind": "approval", "manifest": manifest.sha256, **acted})
        self._enter(run, manifest, approval, log)
        rounds, sent = spent(folder / SPENT, log.lines)
        gate = Gate(
            self.site.name, plan, codes, log,
            most_rounds=manifest.most_rounds - rounds, most_bytes=manifest.most_bytes - sent,
            most_codes=manifest.most_codes,
        )  # fmt: skip
        self._opened, self._seen = (gate, log, manifest), seen
        return manifest

    def _enter(self, run: str, manifest: Manifest, approval: Approval, log: AuditFile) -> None:
        """The run stands in the ledger, unless its number or its company is not approved."""
        entry = Entry(
            approval.protocol_sha256, manifest.events_sha256,
            {one.fingerprint: one.owner for one in self.protocol.members}, approval.other_rosters,
        )  # fmt: skip
        try:
            RunLedger(self.site.state).enter(entry, run, self.protocol.budgets.max_runs)
        except TriphenoError as fault:
            log.refuse("begin", self.site.name, fault.code)
            raise

    # ── at every message ──────────────────────────────────────────────────────────────────────

    def pass_out(
        self, step: str, declaration: Declaration, data: bytes, shapes: Mapping[str, Any] | None
    ) -> bytes:
        """The message, if it is approved now; its line and cost are on disk before it leaves."""
        gate, log, manifest = self._open()
        if declaration != FAULT:  # that this hospital cannot go on may be said always
            self._check_still(step, log, manifest)
        if declaration == AUDIT_HEAD:  # its line is the countersigned head itself
            gate.check(step, declaration, data, shapes)
            return data
        passed = gate.pass_out(step, declaration, data, shapes)
        left = (manifest.most_rounds - gate.rounds_left, manifest.most_bytes - gate.bytes_left)
        write_whole(log.path.with_name(SPENT), json.dumps(left).encode())
        return passed

    def still_approved(self, step: str) -> None:
        """Bytes that were let out may leave once more: the approval has not been taken back."""
        _, log, manifest = self._open()
        self._check_still(step, log, manifest)

    def arrived(self, step: str, data: bytes) -> None:
        """What came back goes into the log too; a countersignature as the head it makes."""
        gate, log, _ = self._open()
        if step.split("/", 1)[0] != AUDIT_HEAD.name:
            gate.arrived(step, data)
        elif data or log.countersigned:
            log.take_countersignature(_own(log.countersignatures(data), self.site.name))

    def refused(self, step: str, fault: TriphenoError) -> None:
        """Something came that this hospital does not wait for: the line says so."""
        self._open()[1].refuse(step[:80], self.site.name, fault.code)

    def resize(self, codes: Mapping[str, int]) -> None:
        """The axes have other sizes from now on: never more codes than were approved."""
        self._open()[0].resize(codes)

    def _check_still(self, step: str, log: AuditFile, manifest: Manifest) -> None:
        """Look at the files' dates, and at the approval itself where something changed.

        What was approved since may allow less: the gate stands for the manifest it was made of.
        """
        seen = self._state()
        if seen == self._seen:
            return
        try:
            if self.approved().sha256 != manifest.sha256:
                raise NotApproved("another manifest was approved since this attempt began")
        except TriphenoError as fault:
            log.refuse(step[:80], self.site.name, fault.code)
            raise
        self._seen = seen

    def _state(self) -> object:
        stamps: list[object] = [self._day()]
        for name in (APPROVAL, MANIFEST, WITHDRAWAL):
            try:
                found = (self.site.approval / name).stat()
                stamps.append((found.st_mtime_ns, found.st_size, found.st_ino))
            except OSError:
                stamps.append(None)
        return stamps

    def offer_head(self, *, last: bool = False) -> bytes:
        """Where the log stands, signed: to be sent as :data:`AUDIT_HEAD`, in steps of its name."""
        return self._open()[1].offer_head(last=last)

    def _open(self) -> tuple[Gate, AuditFile, Manifest]:
        if self._opened is None:
            raise RunFailed("a message before the gate was opened", where=self.site.name)
        return self._opened


def _own(data: bytes, name: str) -> str:
    """One hospital's countersignature of all that the coordinator gave."""
    try:
        return str(json.loads(data)[name])
    except (ValueError, KeyError, TypeError, RecursionError):
        raise BadMessage("countersignatures that cannot be read", where=name) from None


def spent(path: Path, lines: list[str]) -> tuple[int, int]:
    """Rounds and bytes of a run so far: what was written down apart, never less than the log's."""
    rounds = sent = 0
    for line in lines:
        entry = json.loads(line)
        if entry.get("kind") == "message" and entry.get("direction") == "out":
            rounds += 1
            sent += entry["bytes"]
    if not path.is_file():
        return rounds, sent
    try:
        kept_rounds, kept_bytes = (int(number) for number in json.loads(path.read_bytes()))
    except (ValueError, TypeError):
        raise RunFailed("what was spent cannot be read", where=path.name) from None
    return max(rounds, kept_rounds), max(sent, kept_bytes)


def note_refusal(site: Site, step: str, code: str) -> None:
    """A line about a beginning that was refused, on disk; there is no run to whose log it goes."""
    line = {"at": datetime.now(UTC).isoformat("T", "seconds"), "step": step[:80], "reason": code}
    site.state.mkdir(parents=True, exist_ok=True, mode=0o700)
    append_line(site.state / REFUSALS, json.dumps(line, sort_keys=True), mode=0o600, sync=True)
