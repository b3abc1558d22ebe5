"""A hospital's side of a whole study: greeting, keys, axes, small cells, rounds, the end.

The coordinator asks step by step; this answers, over any channel. What it answers with goes through
the hospital's door (`door`), and nothing else leaves. The state between steps is here and, every
few iterations, on the hospital's own disk.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tripheno.errors import BadMessage, SessionLost, WrongStep
from tripheno.exchange.keys import Identity
from tripheno.exchange.sums import Hospital, handler
from tripheno.federation.axes import OwnAxes
from tripheno.federation.checkpoints import Checkpoints
from tripheno.federation.doorkeeper import Doorkeeper
from tripheno.federation.keys import coordinator_key, hospital_keys
from tripheno.federation.messages import (
    Hello,
    Here,
    Kept,
    Resume,
    check_agreement,
    read_json,
)
from tripheno.federation.phases import split_step
from tripheno.privacy.small_cells import people_at_positions
from tripheno.protocol.agreed import Protocol, protocol_hash
from tripheno.solver.federated import Member
from tripheno.solver.moments import hospital_arrays, hospital_state
from tripheno.tensor.count_tensor import CountTensor
from tripheno.vocabulary.public_list import counting

HEADS = ("head/", "countersign/")
LAST_HEAD = "head/last"


@dataclass(frozen=True)
class Finished:
    """What a hospital has at the end: its own patients' factor and what all members were told."""

    tensor: CountTensor
    patients: np.ndarray
    factors: tuple[np.ndarray, ...]
    summary: dict[str, Any]


@dataclass(frozen=True)
class HospitalFile:
    """What a hospital brings to a study."""

    name: str
    tensor: CountTensor  # on its own axes
    protocol: Protocol
    identity: Identity
    store: Callable[[str], Checkpoints]  # run → its folder
    door: Doorkeeper = field(default_factory=Doorkeeper)
    finished: Callable[[str, Finished], None] = field(default=lambda _run, _end: None)
    over: Callable[[str], None] = field(default=lambda _run: None)  # the very last step was taken


class HospitalDesk:
    """Answers every step of a study. A new attempt begins with a greeting and new keys."""

    def __init__(self, file: HospitalFile) -> None:
        self.file = file
        self._sitting: _Sitting | None = None

    def respond(self, step: str, data: bytes) -> bytes:
        """One step: check, answer, and let the answer pass the door."""
        attempt, inner = split_step(step)
        if inner == "hello":
            answer = self._greet(attempt, data)
        elif self._sitting is None or self._sitting.hello.attempt != attempt:
            raise SessionLost("this hospital holds no keys of this attempt", where=self.file.name)
        else:
            answer = self._sitting.respond(inner, data)
            if inner.startswith(HEADS):  # a hash and signatures; a line about it would change it
                return answer
        return self.file.door.pass_out(inner, data, answer)

    def _greet(self, attempt: int, data: bytes) -> bytes:
        file, hello = self.file, Hello.unpack(data)
        check_agreement(file.protocol, hello, where=file.name)
        file.door.check()
        store = file.store(hello.run)
        if hello.attempt != attempt or attempt <= store.attempt():
            raise WrongStep("an attempt that was made before", where=file.name)
        store.take_attempt(attempt)
        file.door.begin(hello.run, file.tensor, coordinator_key(file.protocol, hello))
        self._sitting = _Sitting(file, hello, store)
        kept = tuple(store.iterations()) if store.axes() is not None else ()
        return Here(file.identity.public, protocol_hash(file.protocol), kept).pack()


class _Sitting:
    """One attempt at one hospital."""

    def __init__(self, file: HospitalFile, hello: Hello, store: Checkpoints) -> None:
        self.file, self.hello, self.store = file, hello, store
        self.own = OwnAxes(file.tensor, file.protocol)
        self._member: Member | None = None
        self._hospital: Hospital | None = None

    def respond(self, step: str, data: bytes) -> bytes:
        if step == "roster":
            return self._take_roster(data)
        if self._hospital is None:
            raise BadMessage("a step before the roster", where=self.file.name)
        phase = step.split("/", 1)[0]
        if phase in ("keys", "share", "tokens"):
            answer = self.own.answer(step, data)
            if step == "tokens/places":
                self._tell_sizes()
            return answer
        if phase == "people":
            self._hospital.handlers["people"] = counting(self._people(step))
        elif phase == "iterate":
            self._keep(step)
        elif phase == "labels":
            return self.file.door.names(data, self.own.tensor.axes)
        elif phase == "end":
            return self._end(data)
        elif step.startswith(HEADS):
            return self._head(step, data)
        return self._hospital.respond(step, data)

    def _take_roster(self, data: bytes) -> bytes:
        """Every member's public key, checked against the fingerprints agreed on."""
        file = self.file
        shown = read_json(data, "roster")
        keys = hospital_keys(file.protocol, self.hello, file.name, file.identity, shown)
        self.own.take_keys(keys.desk)
        self._hospital = Hospital(
            file.name, keys,
            {
                "kept": handler(Kept, self._restrict),
                "resume": handler(Resume, self._resume),
                "begin": self._begin,
            },
        )  # fmt: skip
        return b""

    # ── axes ──────────────────────────────────────────────────────────────────────────────────

    def _people(self, step: str) -> list[np.ndarray]:
        """min(people) is asked for the slots of a public list, or for the axes as they stand."""
        if step.startswith("people/list"):
            return self.own.people_in_slots()
        return people_at_positions(self.own.tensor)

    def _restrict(self, news: Kept) -> None:
        self.own.keep(news.kept)
        self._tell_sizes()

    def _tell_sizes(self) -> None:
        self.file.door.resize({axis.mode: axis.size for axis in self.own.tensor.axes})

    # ── rounds ────────────────────────────────────────────────────────────────────────────────

    def _join(self, tensor: CountTensor) -> Member:
        """Take a seat in the rounds: the solver's own handlers beside ours."""
        assert self._hospital is not None  # the roster came first
        solver = self.file.protocol.solver.with_variant_rules()
        member = Member(self.file.name, tensor, solver, self._hospital.sums)
        self._hospital.handlers.update(member.hospital.handlers)
        self._member = member
        return member

    def _begin(self, step: str, data: bytes) -> Any:
        """The axes are frozen from here on."""
        self.store.save_axes(self.own.tensor.axes)
        return self._join(self.own.tensor).hospital.handlers["begin"](step, data)

    def _resume(self, news: Resume) -> None:
        axes = self.store.axes()
        if axes is None:
            raise BadMessage("there is nothing to go on with", where=self.file.name)
        self.own.take(axes)
        self._tell_sizes()
        member = self._join(self.own.tensor)
        arrays = self.store.load(news.iteration)
        member.state = hospital_state(arrays, member.state.tensor, member.state.settings)

    def _keep(self, step: str) -> None:
        """Every few iterations, before the first step of one, keep the state on disk."""
        parts = step.split("/")
        if parts[2:] != ["0", "0"] or self._member is None:
            return
        iteration = int(parts[1])
        if iteration > 1 and (iteration - 1) % self.file.protocol.operation.checkpoint_every == 0:
            self.store.save(iteration, hospital_arrays(self._member.state))

    def _head(self, step: str, data: bytes) -> bytes:
        """Show where the audit log stands, or take the coordinator's signature under it."""
        if step.startswith("head/"):
            return self.file.door.offer_head(last=step == LAST_HEAD)
        self.file.door.take_countersignature(str(read_json(data, step).get(self.file.name)))
        if step == "countersign/last":
            self.file.over(self.hello.run)
        return b""

    # ── the end ───────────────────────────────────────────────────────────────────────────────

    def _end(self, data: bytes) -> bytes:
        """What all members are told at the end; the hospital keeps its own part."""
        if self._member is None:
            raise BadMessage("the end before the rounds", where=self.file.name)
        state = self._member.state
        summary = read_json(data, "end")
        end = Finished(state.tensor, state.patients, state.shared_factors, summary)
        self.file.finished(self.hello.run, end)
        return b""
