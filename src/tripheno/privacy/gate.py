"""The one gate out of a hospital.

Every byte that leaves passes :meth:`Gate.pass_out`. It holds the message against what the registry
says of a study's plan (kind, how often, fields, exact shape, bytes and rounds left), writes the
line in the audit log, and only then hands the bytes on. What does not fit is stopped, with a line
that says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import Any, Protocol

from tripheno.errors import BadMessage, GateRefused
from tripheno.exchange.blind import BlindSession
from tripheno.exchange.communicator import PROJECTIONS, STATE, VOTES
from tripheno.exchange.fixed_point import Layout
from tripheno.exchange.messages import unpack
from tripheno.exchange.registry import NO_STACK, Declaration, MessagePlan, Sizes, messages_of
from tripheno.exchange.session import sealed_bytes
from tripheno.privacy.faults import FAULT
from tripheno.privacy.labels import LABELS

MOST_VOTES = 64
ANY_CODES = 2**31
RELEASE = "result"  # the message after which names of codes may leave
WIDER = "/wider"  # the same contribution once more, on a wider scale


class GateLog(Protocol):
    """Where the gate writes what passed, what came back and what was stopped."""

    def sent(self, step: str, hospital: str, data: bytes) -> None:
        """A message that leaves."""

    def received(self, step: str, hospital: str, data: bytes) -> None:
        """What came back."""

    def refuse(self, step: str, hospital: str, reason: str) -> None:
        """A message that was stopped."""


class Gate:
    """A hospital's gate for one study: what may pass, and how much of it is left.

    ``codes`` are the codes of each mode on the axes as they stand; ``most_codes`` how many were
    approved, where somebody approved them.
    """

    def __init__(
        self,
        hospital: str,
        plan: MessagePlan,
        codes: Mapping[str, int],
        record: GateLog,
        *,
        most_rounds: int,
        most_bytes: int,
        most_codes: Mapping[str, int] | None = None,
    ) -> None:
        self.hospital, self.plan, self.record = hospital, plan, record
        self._allowed = {one.name: one for one in messages_of(plan)}
        self._times_left = {one.name: one.times(plan) for one in self._allowed.values()}
        self._most_codes = dict(most_codes or dict.fromkeys(plan.modes, ANY_CODES))
        self.rounds_left, self.bytes_left = most_rounds, most_bytes
        self.codes: dict[str, int] = {}
        self._released = False
        self.resize(codes)

    def resize(self, codes: Mapping[str, int]) -> None:
        """The axes have other sizes from now on: never more codes than were approved."""
        for mode, size in codes.items():
            if size > self._most_codes[mode]:
                reason = f"{size:,} {mode} codes, at most {self._most_codes[mode]:,} are approved"
                self.record.refuse("axes", self.hospital, reason)
                raise GateRefused(reason, where=self.hospital)
        self.codes = {mode: codes[mode] for mode in self.plan.modes}

    def pass_out(
        self, step: str, declaration: Declaration, data: bytes, shapes: Mapping[str, Any] | None
    ) -> bytes:
        """The message, once it was checked and its line is written; or :class:`GateRefused`."""
        try:
            self.check(step, declaration, data, shapes)
            self._spend(step, declaration, data)
        except BadMessage as fault:
            reason = " · ".join(part for part in (fault.what, fault.why) if part)
            self.record.refuse(step[:80], self.hospital, reason)
            raise GateRefused(reason, where=f"{self.hospital}, step {step[:80]}") from None
        self.record.sent(step, self.hospital, data)
        return data

    def arrived(self, step: str, data: bytes) -> None:
        """What came back goes into the record too."""
        self.record.received(step, self.hospital, data)

    def _spend(self, step: str, declaration: Declaration, data: bytes) -> None:
        if declaration == FAULT:
            return  # that this hospital cannot go on may be said always
        if declaration.name == LABELS.name and not self._released:
            raise BadMessage("names of codes before the release")
        again = WIDER in step  # the same message on a wider scale
        if not again and self._times_left[declaration.name] < 1:
            raise BadMessage(f"no message '{declaration.name}' is left")
        if self.rounds_left < 1:
            raise BadMessage("the budget of rounds is spent")
        if len(data) > self.bytes_left:
            raise BadMessage("the budget of bytes is spent")
        if not again:
            self._times_left[declaration.name] -= 1
        self.rounds_left -= 1
        self.bytes_left -= len(data)
        self._released = self._released or declaration.name == RELEASE

    def check(
        self, step: str, declaration: Declaration, data: bytes, shapes: Mapping[str, Any] | None
    ) -> None:
        """Raise :class:`BadMessage` if the message is not exactly one that the plan has."""
        allowed = self._allowed.get(declaration.name)
        if allowed is None or allowed != declaration:
            raise BadMessage("the manifest has no such message")
        if shapes is not None:
            self._check_sum(step, allowed, data, dict(shapes))
        elif allowed.fields:
            self._check_fields(allowed, {k: a.shape for k, a in unpack(data, where=step).items()})
        elif allowed.opaque is not None and len(data) > allowed.opaque(self.plan, self._most_codes):
            raise BadMessage(f"{len(data):,} bytes are more than this message may have")

    def _check_sum(
        self, step: str, allowed: Declaration, data: bytes, shapes: dict[str, Any]
    ) -> None:
        """Exactly the declared arrays, beside them only votes and the shared state's projection."""
        layout = Layout.named(shapes)
        votes = shapes.pop(VOTES, (0,))
        if len(votes) != 1 or votes[0] > MOST_VOTES:
            raise BadMessage("more votes than a step has")
        if shapes.pop(STATE, (PROJECTIONS,)) != (PROJECTIONS,):
            raise BadMessage("a projection of another size")
        self._check_fields(allowed, shapes)
        if data[: len(BlindSession.magic)] == BlindSession.magic:
            expected = sealed_bytes(step, layout.size + layout.lanes)
            if len(data) != expected:
                raise BadMessage(f"{len(data):,} bytes, not {expected:,}")
        elif self.plan.blind:
            raise BadMessage("a sum that is not blind")
        elif {k: a.shape for k, a in unpack(data, where=step).items()} != dict(layout.arrays):
            raise BadMessage("the fields are not the protocol's")

    def _check_fields(self, allowed: Declaration, shapes: Mapping[str, tuple[int, ...]]) -> None:
        stacks = {*self.plan.stacks, NO_STACK}  # fewer models than agreed on may be none
        for rank, bias, stack in product(self.plan.ranks, {False, self.plan.bias}, stacks):
            sizes = Sizes(tuple(self.codes.values()), rank + int(bias), rank, stack)
            if any(dict(shapes) == one for one in allowed.allowed(sizes)):
                return
        raise BadMessage("the fields are not the protocol's")
