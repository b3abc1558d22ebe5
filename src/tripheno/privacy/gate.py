"""The one door out of a hospital.

Every byte that leaves passes :meth:`Gate.pass_out`. It holds the message against what the manifest
allows (kind, field names, types, exact shape, bytes and rounds left), writes the line in the audit
log, and only then hands the bytes on. What does not fit is stopped, with a line that says so.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from tripheno.errors import BadMessage, GateRefused
from tripheno.exchange.channel import Responder
from tripheno.exchange.fixed_point import Layout
from tripheno.exchange.messages import unpack
from tripheno.exchange.secure import RETRY, check_sealed
from tripheno.privacy.manifest import Manifest
from tripheno.privacy.outgoing import Field, Outgoing, phase_of
from tripheno.vocabulary.tokens import TOKEN_BYTES


class Record(Protocol):
    """Where the gate writes what passed and what did not."""

    def listen(self, step: str, hospital: str, broadcast: bytes, answer: bytes) -> None:
        """A message in and its answer out."""

    def refuse(self, step: str, hospital: str, reason: str) -> None:
        """An answer that was stopped."""


class Gate:
    """A hospital's door for one study: what may pass, and how much of it is left.

    ``sizes`` are the codes of each mode on the agreed axes (while axes are being agreed on: the
    public list's, or the hospital's own); ``own_codes`` is how many codes this hospital has.
    """

    def __init__(
        self,
        hospital: str,
        allowed: Sequence[Outgoing],
        sizes: Mapping[str, int],
        record: Record,
        *,
        most_rounds: int,
        most_bytes: int,
        own_codes: Mapping[str, int] | None = None,
    ) -> None:
        self.hospital, self.sizes, self.record = hospital, dict(sizes), record
        self._allowed = {one.phase: one for one in allowed}
        self._own_codes = dict(own_codes or {})
        self.rounds_left, self.bytes_left = most_rounds, most_bytes
        self._left = {one.phase: one.most_rounds for one in allowed}
        self._passed: dict[str, bytes] = {}
        self._layouts: dict[str, tuple[dict[str, int], Layout]] = {}

    def guard(self, respond: Responder) -> Responder:
        """The responder behind this door, for one run."""
        self._passed = {}
        return lambda step, data: self.pass_out(step, data, respond(step, data))

    def pass_out(self, step: str, broadcast: bytes, answer: bytes) -> bytes:
        """The answer, once it was checked and its line is written; or :class:`GateRefused`."""
        digest = hashlib.blake2b(answer, digest_size=16).digest()
        again = self._passed.get(step)
        try:
            if again is not None and again != digest:
                raise BadMessage("another answer under a step that was answered")
            if again is None:
                self._check(step, answer)
            self._spend(step, answer, new=again is None)
        except BadMessage as fault:
            reason = " · ".join(part for part in (fault.what, fault.why) if part)
            self.record.refuse(step[:80], self.hospital, reason)
            raise GateRefused(reason, where=f"{self.hospital}, step {step[:80]}") from None
        self._passed[step] = digest
        self.record.listen(step, self.hospital, broadcast, answer)
        return answer

    def _spend(self, step: str, answer: bytes, *, new: bool) -> None:
        """Rounds and bytes that are left. The same bytes asked for again cost bytes alone."""
        phase = phase_of(step)
        if new and RETRY.match(step) is None:  # a repetition on a wider scale is its step's
            if self._left[phase] < 1:
                raise BadMessage(f"no round of '{phase}' is left")
            self._left[phase] -= 1
        if new and answer:
            if self.rounds_left < 1:
                raise BadMessage("the budget of rounds is spent")
            self.rounds_left -= 1
        if len(answer) > self.bytes_left:
            raise BadMessage("the budget of bytes is spent")
        self.bytes_left -= len(answer)

    def _check(self, step: str, answer: bytes) -> None:
        allowed = self._allowed.get(phase_of(step))
        if allowed is None:
            raise BadMessage("the manifest has no such message")
        if len(answer) > allowed.most_bytes:
            raise BadMessage(f"{len(answer):,} bytes, at most {allowed.most_bytes:,} are allowed")
        if allowed.masked:
            check_sealed(answer, step, self._layout(allowed), where="")
        elif allowed.fields:
            self._check_clear(allowed.fields, answer)
        elif allowed.phase == "tokens/list":
            self._check_tokens(answer)
        elif allowed.message in ("Keys", "Nothing") and len(answer) != allowed.most_bytes:
            raise BadMessage(f"{len(answer):,} bytes, not {allowed.most_bytes:,}")

    def _layout(self, allowed: Outgoing) -> Layout:
        """Names and shapes of a kind of message, worked out once for these sizes."""
        known = self._layouts.get(allowed.phase)
        if known is None or known[0] != self.sizes:
            known = (dict(self.sizes), allowed.layout(self.sizes))
            self._layouts[allowed.phase] = known
        return known[1]

    def _check_clear(self, fields: Sequence[Field], answer: bytes) -> None:
        """Names, types and shapes of a message that is not masked, exactly."""
        arrays = unpack(answer, where="")
        if set(arrays) != {field.name for field in fields}:
            raise BadMessage("the fields are not the protocol's")
        for field in fields:
            array = arrays[field.name]
            if array.dtype != np.dtype(field.dtype) or array.shape != field.sized(self.sizes):
                raise BadMessage(
                    f"'{field.name}' is {array.dtype} {array.shape}, "
                    f"the protocol says {field.dtype} {field.sized(self.sizes)}"
                )

    def _check_tokens(self, answer: bytes) -> None:
        """One token for each of this hospital's codes, and nothing beside them."""
        try:
            lengths = {mode: len(bytes.fromhex(text)) for mode, text in json.loads(answer).items()}
        except (ValueError, AttributeError, TypeError, RecursionError):
            raise BadMessage("is no list of tokens") from None
        if lengths != {mode: TOKEN_BYTES * n for mode, n in self._own_codes.items()}:
            raise BadMessage("not one token for each of this hospital's codes")


def approved_gate(
    manifest: Manifest,
    sizes: Mapping[str, int],
    record: Record,
    own_codes: Mapping[str, int],
) -> Gate:
    """The door of a hospital whose manifest was approved; ``sizes`` as for :class:`Gate`."""
    for mode, size in sizes.items():
        if size > manifest.most_codes[mode]:
            raise GateRefused(
                f"{size:,} {mode} codes, at most {manifest.most_codes[mode]:,} are approved",
                where=manifest.hospital,
            )
    return Gate(
        manifest.hospital, manifest.messages, sizes, record,
        most_rounds=manifest.most_rounds, most_bytes=manifest.most_bytes, own_codes=own_codes,
    )  # fmt: skip
