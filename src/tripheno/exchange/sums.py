"""Contributions become one sum. The server reads the sum and nothing else of them.

A :class:`Sums` has two halves: ``seal`` runs at a hospital, ``total`` at the server. Here stands
the plain one, whose server could look at each contribution; masked sums keep the two halves.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from tripheno.errors import BadMessage
from tripheno.exchange.channel import Channel, Responder
from tripheno.exchange.messages import Broadcast, Contribution, Message, pack, unpack

C = TypeVar("C", bound=Contribution)
M = TypeVar("M", bound=Message)
Arrays = dict[str, np.ndarray]
KEYS = "keys"  # the phase of steps in which hospitals agree on keys


Ask = Callable[[str, bytes], dict[str, bytes]]
"""``sealed = ask(step, plan)``: every hospital's sealed arrays for a step under a plan."""


class Sums(ABC):
    """How contributions are sealed at a hospital and added up at the server.

    A *plan* is what the server says about the arithmetic of one step (the scale of each array),
    and travels with the broadcast. Plain sums need none.
    """

    # ── at a hospital ─────────────────────────────────────────────────────────────────────────

    @abstractmethod
    def seal(self, hospital: str, step: str, arrays: Arrays, plan: bytes = b"") -> bytes:
        """One hospital's arrays as the bytes that leave it."""

    def again(self, step: str, plan: bytes) -> bytes | None:
        """The last contribution sealed anew, when the step asks for that and nothing else."""
        del step, plan
        return None

    def answer_keys(self, step: str, data: bytes) -> bytes:
        """A hospital's answer while keys are agreed on."""
        del data
        raise BadMessage("this hospital agrees on no keys", where=step[:40])

    def unwrap(self, data: bytes) -> tuple[bytes, bytes]:
        """The plan and the broadcast that came together."""
        return b"", data

    # ── at the server ─────────────────────────────────────────────────────────────────────────

    @abstractmethod
    def total(self, step: str, sealed: Mapping[str, bytes], like: Arrays) -> Arrays:
        """The sum over all hospitals; every part must have the names and shapes of ``like``."""

    def collect(self, step: str, like: Arrays, ask: Ask) -> Arrays:
        """Ask for a step's sealed arrays, as often as it takes, and add them up."""
        return self.total(step, ask(step, b""), like)

    def agree(self, channel: Channel) -> None:
        """Whatever has to be agreed on before the first sum; done once."""
        del channel

    def wrap(self, plan: bytes, broadcast: bytes) -> bytes:
        """A broadcast together with its plan."""
        del plan
        return broadcast


MakeSums = Callable[[tuple[str, ...]], tuple[Mapping[str, Sums], Sums]]
"""Both halves for one run of these hospitals: each hospital's own, and the server's."""


def plain_sums(hospitals: tuple[str, ...]) -> tuple[Mapping[str, Sums], Sums]:
    """Sums in clear for one run."""
    sums = PlainSums()
    return dict.fromkeys(hospitals, sums), sums


class PlainSums(Sums):
    """Contributions in clear: for research on one machine and for comparison."""

    def seal(self, hospital: str, step: str, arrays: Arrays, plan: bytes = b"") -> bytes:
        """Nothing is hidden."""
        del hospital, step, plan
        return pack(arrays)

    def total(self, step: str, sealed: Mapping[str, bytes], like: Arrays) -> Arrays:
        """Add up in the hospitals' order, refusing any part of another shape."""
        sums = {name: np.zeros(array.shape) for name, array in like.items()}
        for hospital, data in sealed.items():
            arrays = unpack(data, where=f"{hospital}, step {step}")
            check_arrays(arrays, like, where=f"{hospital}, step {step}")
            with np.errstate(over="ignore"):  # refused below
                sums = {name: so_far + arrays[name] for name, so_far in sums.items()}
        if not all(np.isfinite(array).all() for array in sums.values()):
            raise BadMessage("the sum is not finite", where=f"step {step}")
        return sums


def check_arrays(arrays: Arrays, like: Arrays, *, where: str) -> None:
    """Refuse arrays whose names, types or shapes are not the protocol's."""
    if set(arrays) != set(like):
        raise BadMessage("the fields are not the protocol's", where=where)
    for name, expected in like.items():
        if arrays[name].shape != expected.shape or arrays[name].dtype != np.dtype("<f8"):
            raise BadMessage(
                f"'{name}' is {arrays[name].dtype} {arrays[name].shape}, "
                f"the protocol says float64 {expected.shape}",
                where=where,
            )


@dataclass(frozen=True)
class Exchange:
    """The server's view of a federation."""

    channel: Channel
    sums: Sums

    @property
    def size(self) -> int:
        """K, the number of hospitals."""
        return len(self.channel.hospitals)

    def sum(self, step: str, broadcast: Broadcast, like: C) -> C:
        """One round: broadcast, every hospital contributes, the sum comes back.

        ``like`` is a contribution of zeros: its type and shapes are what the protocol allows.
        """
        self.sums.agree(self.channel)
        payload = broadcast.pack()

        def ask(name: str, plan: bytes) -> dict[str, bytes]:
            # a repeated step asks for the same contribution: hospitals have the broadcast
            return self.channel.round(name, self.sums.wrap(plan, payload if name == step else b""))

        return type(like).from_arrays(self.sums.collect(step, like.arrays(), ask))

    def gather(self, step: str, broadcast: Broadcast, kind: type[M]) -> dict[str, M]:
        """One round whose answers are *not* summed: each hospital's message by name.

        Only for the two exchanges that are no sums: the union of code lists and the `local`
        baseline.
        """
        answers = self.channel.round(step, self.sums.wrap(b"", broadcast.pack()))
        return {hospital: kind.unpack(data) for hospital, data in answers.items()}

    def tell(self, step: str, broadcast: Broadcast) -> None:
        """One round in which hospitals only listen."""
        told = self.channel.round(step, self.sums.wrap(b"", broadcast.pack()))
        for hospital, data in told.items():
            if data:
                raise BadMessage("an answer where none was asked for", where=f"{hospital}, {step}")


Handler = Callable[[str, bytes], Message | None]


@dataclass(frozen=True)
class Hospital:
    """The hospital's side of every round: steps by their first word, answers sealed or released."""

    name: str
    sums: Sums
    handlers: dict[str, Handler]

    def respond(self, step: str, data: bytes) -> bytes:
        """Answer one step: a contribution is sealed into the sum, another message is released."""
        phase = step.split("/", 1)[0]
        if phase == KEYS:
            return self.sums.answer_keys(step, data)
        plan, broadcast = self.sums.unwrap(data)
        sealed = self.sums.again(step, plan)
        if sealed is not None:
            return sealed
        if phase not in self.handlers:
            raise BadMessage(f"unknown step '{phase[:40]}'", where=self.name)
        answer = self.handlers[phase](step, broadcast)
        if answer is None:
            return b""
        if isinstance(answer, Contribution):
            return self.sums.seal(self.name, step, answer.arrays(), plan)
        return answer.pack()


def handler(kind: type[Any], answer: Callable[[Any], Message | None]) -> Handler:
    """A handler that unpacks the broadcast of one type and answers it."""
    return lambda _step, data: answer(kind.unpack(data))


def as_responder(hospital: Hospital) -> Responder:
    """What a channel calls."""
    return hospital.respond
