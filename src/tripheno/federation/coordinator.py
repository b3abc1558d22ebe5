"""The coordinator's side of a study: it adds, hands the same bytes to all, and keeps time.

It knows step names, sizes and who is awaited. Totals are opaque to it; the one thing it can read is
the result, which every hospital sends at the end and which it compares. An attempt ends when a
hospital lost its keys; the next one begins under new keys, and hospitals work out among themselves
from where to go on.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from tripheno.errors import BadMessage, SessionLost, WrongStep
from tripheno.exchange.communicator import combine
from tripheno.exchange.keys import Identity
from tripheno.federation.audit_file import countersigned
from tripheno.federation.transport import Channel
from tripheno.federation.wire import COUNTERSIGN, DONE, Asked, Hello
from tripheno.privacy.audit import Head
from tripheno.privacy.labels import LABELS, shown_positions, united_labels
from tripheno.protocol.agreed import Protocol, protocol_hash
from tripheno.study.result import Findings, compared, read_result
from tripheno.study.store import RunStore

MOST_ATTEMPTS = 25  # of one process; a person looks then

Say = Callable[[str], None]


@dataclass(frozen=True)
class Study:
    """What the coordinator carries."""

    protocol: Protocol
    run: str
    store: RunStore  # attempts alone
    identity: Identity | None = None  # countersigns audit heads; None: there are none
    heads: Callable[[str, Head], None] = field(default=lambda _name, _head: None)
    last_head: Callable[[str], Head | None] = field(default=lambda _name: None)
    step: Callable[[str], None] = field(default=lambda _step: None)  # told of every step's name
    say: Say = field(default=lambda _text: None)


@dataclass(frozen=True)
class Carried:
    """What the coordinator has at the end: the result that all hospitals released."""

    findings: Findings
    attempts: int


def coordinate(study: Study, channel: Channel) -> Carried:
    """Carry the study to its end, in as many attempts as it takes."""
    for number in range(1, MOST_ATTEMPTS + 1):
        attempt = study.store.attempt() + 1
        study.store.take_attempt(attempt)
        try:
            return Carried(_Attempt(study, channel, attempt).run(), attempt)
        except SessionLost as fault:
            if number == MOST_ATTEMPTS:
                raise
            study.say(f"{fault.where} was started again; going on under new keys")
    raise SessionLost("too many attempts", where=study.run)


class _Attempt:
    """One attempt: step after step, until all hospitals say that they are done."""

    def __init__(self, study: Study, channel: Channel, number: int) -> None:
        self.study, self.channel, self.number = study, channel, number
        self.publics: Mapping[str, bytes] = {}
        self.results: dict[str, Findings] = {}
        self.labels: Mapping[str, bytes] = {}

    def run(self) -> Findings:
        """The whole attempt."""
        identity = self.study.identity
        public = identity.public.hex() if identity is not None else ""
        hello = Hello(self.study.run, self.number, protocol_hash(self.study.protocol), public)
        answer, step = hello.pack(), 0
        while True:
            answers = self.channel.round(f"{self.number}:{step}", answer)
            asked = {name: Asked.unpack(data, name) for name, data in answers.items()}
            how, name = self._same(asked)
            if how == DONE:
                break
            self.study.step(name)
            answer = self._answer(how, name, {n: one.data for n, one in asked.items()})
            step += 1
        if set(self.results) != set(self.channel.hospitals):
            raise BadMessage("a study that ends without a result of every hospital")
        found = compared(self.results)
        shown = shown_positions(
            found.solution.axes, found.solution.factors, found.solution.settings.n_components
        )
        given = {name: data for name, data in self.labels.items() if data}
        return replace(found, named=united_labels(given, shown))

    def _same(self, asked: Mapping[str, Asked]) -> tuple[str, str]:
        """What all hospitals ask for: the same, or they are not in the same study any more."""
        wanted = {(one.how, one.step) for one in asked.values()}
        if len(wanted) != 1:
            raise WrongStep("hospitals are at different steps", where=", ".join(sorted(asked)))
        return next(iter(wanted))

    def _answer(self, how: str, step: str, parts: Mapping[str, bytes]) -> bytes:
        if how == COUNTERSIGN:
            return self._countersign(parts)
        if how == "release":
            solver = self.study.protocol.solver.with_variant_rules()
            self.results = {n: read_result(data, solver, n) for n, data in parts.items()}
            return b""
        if step == LABELS.name:
            self.labels = parts
        if step == "identity":
            self.publics = self.study.protocol.roster(parts, b"").by_name()
        return combine(how, parts)  # type: ignore[arg-type]

    def _countersign(self, parts: Mapping[str, bytes]) -> bytes:
        """Every hospital shows where its audit log stands; the coordinator signs and keeps it."""
        identity, given = self.study.identity, {}
        for hospital, offered in parts.items():
            if identity is None or not offered:
                continue
            last = self.study.last_head(hospital)
            head = countersigned(hospital, offered, self.publics[hospital], identity, last)
            self.study.heads(hospital, head)
            given[hospital] = head.countersignature
        return json.dumps(given).encode() if given else b""
