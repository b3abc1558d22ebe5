"""How bytes reach every hospital and come back. The engine's channel keeps the same contract."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tripheno.errors import BadMessage

Responder = Callable[[str, bytes], bytes]
"""A hospital's side: ``answer = respond(step, broadcast)``."""

Listener = Callable[[str, str, bytes, bytes], None]
"""Told of every message: ``listen(step, hospital, sent, answer)``."""

LATEST = 0.2  # weight of the last answer in a hospital's pace


@dataclass
class ChannelTraffic:
    """What one hospital received, sent and computed so far."""

    bytes_down: int = 0
    bytes_up: int = 0
    seconds: float = 0.0
    answers_in: float = 0.0  # seconds until its answer, of late

    def note_answer(self, seconds: float) -> None:
        """An answer came after so long; the last ten or so count."""
        before = self.answers_in or seconds
        self.answers_in = before + LATEST * (seconds - before)


class Channel(ABC):
    """A round trip to every hospital.

    A step is a name unique within the run (``2:17``): the same step asked again gets the same
    bytes. Either every hospital answers or the round raises; there are no partial results.
    """

    def __init__(self) -> None:
        self.traffic: dict[str, ChannelTraffic] = {
            name: ChannelTraffic() for name in self.hospitals
        }

    @property
    @abstractmethod
    def hospitals(self) -> tuple[str, ...]:
        """Names of the members, in a fixed order."""

    @abstractmethod
    def round(self, step: str, broadcast: bytes) -> dict[str, bytes]:
        """Send the same bytes to every hospital and wait for every answer."""


@dataclass
class Outbox:
    """A hospital's responder that remembers its last answer: a step asked again is not redone.

    The request that is repeated because its answer was lost on the way gets the same bytes, if
    they may still leave. Another request under that name is none: the first step of every run has
    the same name.
    """

    respond: Responder
    may_repeat: Callable[[str], None] = field(default=lambda _step: None)
    last: tuple[str, bytes, bytes] | None = field(default=None)  # step, what was asked, answer

    def answer(self, step: str, broadcast: bytes) -> bytes:
        """The answer to a step, made once."""
        if self.last is None or self.last[:2] != (step, broadcast):
            self.last = (step, broadcast, self.respond(step, broadcast))
        else:
            self.may_repeat(step)
        return self.last[2]


class InProcessChannel(Channel):
    """A whole federation in one process, with exact accounting of bytes and compute seconds.

    Hospitals answer one after the other, so that each one's seconds are its own.
    """

    def __init__(self, responders: Mapping[str, Responder], listen: Listener | None = None) -> None:
        self._listen = listen
        self._outboxes = {name: Outbox(respond) for name, respond in responders.items()}
        super().__init__()

    @property
    def hospitals(self) -> tuple[str, ...]:
        """Names of the members, in the order given."""
        return tuple(self._outboxes)

    def round(self, step: str, broadcast: bytes) -> dict[str, bytes]:
        """Ask every hospital in turn."""
        answers = {}
        for name, local in self._outboxes.items():
            started = time.perf_counter()
            answers[name] = local.answer(step, broadcast)
            traffic = self.traffic[name]
            spent = time.perf_counter() - started
            traffic.seconds += spent
            traffic.note_answer(spent)
            traffic.bytes_down += len(broadcast)
            traffic.bytes_up += len(answers[name])
            if self._listen is not None:
                self._listen(step, name, broadcast, answers[name])
        if not answers:
            raise BadMessage("there is no hospital in this federation")
        return answers
