"""A hospital's process in a study: it runs the program, and the coordinator's steps drive it on.

The engine brings steps to :meth:`HospitalService.respond`. Each hands the answer to the step
before to the program, which runs in a thread of its own, and waits for what the program wants to
send next. The program asks; nobody can ask a hospital for anything.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field
from queue import Queue
from threading import Thread

import numpy as np

from tripheno.errors import (
    BadMessage,
    OlderBackup,
    SessionLost,
    TriphenoError,
    TriphenoWarning,
    UnknownMember,
    WrongStep,
)
from tripheno.exchange.communicator import Carrier, Communicator, Gatekeeper, LocalHospital
from tripheno.exchange.keys import Identity, fingerprint_of
from tripheno.exchange.registry import How
from tripheno.federation.gatekeeper import ApprovedGatekeeper
from tripheno.federation.wire import (
    COUNTERSIGN,
    DONE,
    Asked,
    Hello,
    check_agreement,
    split_step,
)
from tripheno.privacy.audit import AUDIT_HEAD
from tripheno.privacy.faults import FAULT, fault_bytes
from tripheno.protocol.agreed import StudyProtocol
from tripheno.study.keys import Greeting
from tripheno.study.program import Hospital, RunContext, Say, Study, conduct
from tripheno.study.result import Findings
from tripheno.study.store import RunStore
from tripheno.tensor.count_tensor import CountTensor
from tripheno.tensor.shards import Shards


@dataclass(frozen=True)
class HospitalFile:
    """What a hospital brings to a study."""

    name: str
    tensor: CountTensor  # on its own axes
    protocol: StudyProtocol
    identity: Identity
    store: Callable[[str], RunStore]  # run → its folder
    gatekeeper: Callable[
        [str, bytes], Gatekeeper
    ]  # run, coordinator's key → what lets messages pass
    secret: bytes  # its exponent in the study's tokens follows from it, and what it draws at home
    refused: Callable[[str, str], None]  # step, code: a line of what no log of a run can hold
    snapshot: bytes = bytes(32)  # salted digest of its data
    labels: Callable[[], bool] = field(default=lambda: False)  # may names of codes leave
    thresholds: Mapping[str, int] = field(default_factory=dict)
    traits: np.ndarray | None = None  # of its patients, where the study counts groups of them
    finished: Callable[[str, Findings], None] = field(default=lambda _run, _found: None)
    over: Callable[[str], None] = field(default=lambda _run: None)  # the very last step was taken
    say: Say = field(default=lambda _text: None)
    step: Callable[[str], None] = field(default=lambda _step: None)  # told of every step's name
    failed: Callable[[Exception], None] = field(default=lambda _fault: None)
    shards: Callable[[], AbstractContextManager[Shards | None]] = nullcontext


class HospitalService:
    """Answers every step of a study. A new attempt begins with a hello and new keys."""

    def __init__(self, file: HospitalFile) -> None:
        self.file = file
        self._attempt: _Attempt | None = None

    def respond(self, step: str, data: bytes) -> bytes:
        """One step: let the program go on, and give what it sends next."""
        try:
            current, number = self._asked(step, data)
        except TriphenoError as fault:
            self.file.refused(step, fault.code)
            raise
        if number:
            current.take(number, data)
        asked = current.next()
        if asked.how == DONE:
            self._attempt = None  # whatever else comes finds nobody who waits for it
            self.file.over(current.hello.run)
        return asked.pack()

    def may_repeat(self, step: str) -> None:
        """An answer that was lost on its way leaves once more only if the approval still stands."""
        if self._attempt is not None and self._attempt.approved is not None:
            self._attempt.approved.still_approved(step)

    def _asked(self, step: str, data: bytes) -> tuple[_Attempt, int]:
        """The attempt that a step belongs to, and its number there."""
        attempt, number = split_step(step)
        if number == 0:
            self._begin(attempt, data)
        current = self._attempt
        if current is None or current.hello.attempt != attempt:
            raise SessionLost("this hospital holds no keys of this attempt", where=self.file.name)
        return current, number

    def _begin(self, attempt: int, data: bytes) -> None:
        file, hello = self.file, Hello.unpack(data)
        check_agreement(file.protocol, hello, where=file.name)
        if hello.pack() != data:
            raise BadMessage("not as it is written", where="hello")
        store = file.store(hello.run)
        if hello.attempt != attempt:
            raise WrongStep("a hello of another attempt", where=file.name)
        if attempt <= store.attempt():
            raise OlderBackup(
                f"attempt {attempt} was made before, the last was {store.attempt()}",
                where=file.name, why="the coordinator was restored from an older backup",
                fix="nothing here: its `tripheno run` counts on",
            )  # fmt: skip
        coordinator = coordinator_key(file.protocol, hello)
        gatekeeper = file.gatekeeper(hello.run, coordinator)
        store.take_attempt(attempt)
        if self._attempt is not None:
            self._attempt.leave()
        self._attempt = _Attempt(file, hello, store, gatekeeper, coordinator)


def coordinator_key(protocol: StudyProtocol, hello: Hello) -> bytes:
    """The key that countersigns audit heads, if it is the one agreed on."""
    try:
        public = bytes.fromhex(hello.coordinator)
    except ValueError:
        raise BadMessage("the coordinator's key cannot be read", where="hello") from None
    if not protocol.coordinator and not protocol.test:
        raise UnknownMember(
            "federation.toml names no coordinator's key: anybody could be it",
            where="coordinator.fingerprint", fix="`tripheno init coordinator` shows it",
        )  # fmt: skip
    if protocol.coordinator and fingerprint_of(public) != protocol.coordinator:
        raise UnknownMember("shows another key than agreed on", where="the coordinator")
    return public


class _Left(BaseException):
    """The attempt is over for this thread: another one began."""


class _Attempt(Carrier):
    """One attempt at one hospital: the program in its thread, and the line it sends over."""

    def __init__(
        self,
        file: HospitalFile,
        hello: Hello,
        store: RunStore,
        gatekeeper: Gatekeeper,
        coordinator: bytes,
    ) -> None:
        self.file, self.hello, self.store, self.gatekeeper = file, hello, store, gatekeeper
        self.approved = gatekeeper if isinstance(gatekeeper, ApprovedGatekeeper) else None
        self._coordinator, self._step = coordinator, 0
        self._out: Queue[Asked | BaseException] = Queue()
        self._in: Queue[bytes | None] = Queue()
        Thread(target=self._run, name="tripheno-study", daemon=True).start()

    # ── the coordinator's steps ───────────────────────────────────────────────────────────────

    def take(self, number: int, data: bytes) -> None:
        """The answer to the step before; out of turn it is refused, and nothing changes."""
        if number != self._step + 1:
            fault = WrongStep("a step out of turn", where=f"{self.file.name}, step {number}")
            if self.approved is not None:
                self.approved.refused(f"{self.hello.attempt}:{number}", fault)
            raise fault
        self._step = number
        self._in.put(data)

    def next(self) -> Asked:
        """What the program sends next, or the error it ended with."""
        asked = self._out.get()
        if isinstance(asked, BaseException):
            self._out.put(asked)  # whoever asks again is told the same
            raise asked
        return asked

    def leave(self) -> None:
        """End the thread at its next exchange."""
        self._in.put(None)

    # ── the program's side ────────────────────────────────────────────────────────────────────

    def exchange(self, how: How, step: str, parts: Mapping[str, bytes]) -> bytes:
        """Send this hospital's bytes and wait for the coordinator's answer."""
        return self._ask(how, step, parts[self.file.name])

    def _ask(self, how: str, step: str, data: bytes) -> bytes:
        self.file.step(step)
        self._out.put(Asked(how, step, data))
        answer = self._in.get()
        if answer is None:
            raise _Left
        return answer

    def _run(self) -> None:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", TriphenoWarning)  # they stand in the result's notes
                self._study()
            self._out.put(Asked(DONE, "end", b""))
        except _Left:
            return
        except Exception as fault:  # the service raises it where the step was asked
            self.file.failed(fault)
            # a gate that cannot write lets the code pass all the same
            with suppress(TriphenoError):
                if self.approved is not None and isinstance(fault, TriphenoError):
                    self.approved.refused("study", fault)
                self.gatekeeper.pass_out(FAULT.name, FAULT, fault_bytes(fault), None)
            self._out.put(fault)

    def _study(self) -> None:
        file, protocol = self.file, self.file.protocol
        names = tuple(sorted(protocol.names))
        federation = Communicator(names, {file.name: LocalHospital(None, self.gatekeeper)}, self)
        greeting = Greeting(file.snapshot, file.thresholds, self.store.kept())
        hospital = Hospital(file.identity, file.secret, greeting, file.labels(), file.traits)
        occasion = RunContext(
            self.hello.run, self.hello.attempt, self._coordinator, say=file.say,
            met=lambda: self._show_head("first"),
        )  # fmt: skip
        tensors, hospitals = {file.name: file.tensor}, {file.name: hospital}
        with file.shards() as shards:
            study = Study(
                protocol, tensors, hospitals, federation, occasion, self.store, shards
            )  # fmt: skip
            found = conduct(study)
        file.finished(self.hello.run, found)
        self._show_head("last")

    def _show_head(self, which: str) -> None:
        """Where the audit log stands, for the coordinator's signature; a gate without one has none.

        A line about the head would change it, so it is no line.
        """
        step, offered = f"{AUDIT_HEAD.name}/{which}", b""
        if self.approved is not None:
            head = self.approved.offer_head(last=which == "last")
            offered = self.approved.pass_out(step, AUDIT_HEAD, head, None)
        self.gatekeeper.arrived(step, self._ask(COUNTERSIGN, step, offered))
