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

from tripheno.errors import BadMessage, OlderBackup, SessionLost, WrongStep
from tripheno.exchange.communicator import combine
from tripheno.exchange.keys import Identity
from tripheno.exchange.roster import Roster
from tripheno.exchange.signed import occasion_of, verified
from tripheno.federation.audit_file import GIVEN, countersigned
from tripheno.federation.transport import Channel
from tripheno.federation.wire import COUNTERSIGN, DONE, Asked, Hello
from tripheno.privacy.audit import Head
from tripheno.privacy.labels import LABELS, united_labels
from tripheno.protocol.agreed import StudyProtocol, protocol_hash
from tripheno.study.result import Findings, compared, read_result
from tripheno.study.store import RunStore

MOST_ATTEMPTS = 25  # of one process; a person looks then

Say = Callable[[str], None]


@dataclass(frozen=True)
class CarriedStudy:
    """What the coordinator carries."""

    protocol: StudyProtocol
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


def coordinate(study: CarriedStudy, channel: Channel) -> Carried:
    """Carry the study to its end, in as many attempts as it takes."""
    for number in range(1, MOST_ATTEMPTS + 1):
        attempt = study.store.attempt() + 1
        study.store.take_attempt(attempt)
        try:
            return Carried(_CarriedAttempt(study, channel, attempt).run(), attempt)
        except (SessionLost, OlderBackup) as fault:
            if number == MOST_ATTEMPTS:
                fix = "start `tripheno run` again, it goes on counting; or `tripheno run --abort`"
                raise type(fault)(fault.what, where=fault.where, fix=fix) from None
            if isinstance(fault, OlderBackup):
                before = f"{fault.where} has made attempt {attempt} before"
                study.say(f"{before}: this machine is from an older backup; counting on")
            else:
                study.say(f"{fault.where} was started again; going on under new keys")
    raise SessionLost("too many attempts", where=study.run)


class _CarriedAttempt:
    """One attempt: step after step, until all hospitals say that they are done."""

    def __init__(self, study: CarriedStudy, channel: Channel, number: int) -> None:
        self.study, self.channel, self.number = study, channel, number
        self.roster: Roster | None = None
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
        given = {name: data for name, data in self.labels.items() if data}
        return replace(found, named=united_labels(given, found.shown))

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
            said = self._verified(step, parts)
            self.results = {n: read_result(data, solver, n) for n, data in said.items()}
            return b""
        if step == LABELS.name:
            self.labels = self._verified(step, parts)
        if step == "identity":
            identity = self.study.identity
            own = identity.public if identity is not None else b""
            self.roster = self.study.protocol.roster(parts, own)
        return combine(how, parts)  # type: ignore[arg-type]

    def _verified(self, step: str, parts: Mapping[str, bytes]) -> dict[str, bytes]:
        """What hospitals signed in clear, as they said it."""
        roster = self._known()
        occasion = occasion_of(roster.study, self.study.run, self.number)
        return {
            name: verified(data, roster.key_of(name), occasion, step, name)
            for name, data in parts.items()
        }

    def _known(self) -> Roster:
        if self.roster is None:
            raise WrongStep("a message before the hospitals showed their keys")
        return self.roster

    def _countersign(self, parts: Mapping[str, bytes]) -> bytes:
        """Every hospital shows where its audit log stands; the coordinator signs and keeps it."""
        identity, given = self.study.identity, {}
        keys = self._known().by_name()
        if identity is None or not any(parts.values()):  # a rehearsal without gates has no logs
            return b""
        for hospital, offered in parts.items():
            last = self.study.last_head(hospital)
            head = countersigned(hospital, offered, keys[hospital], identity, last)
            self.study.heads(hospital, head)
            given[hospital] = head.countersignature
        signed = json.dumps(given).encode()
        return signed + identity.sign(GIVEN, signed)
