"""One hospital's side of a row of sums: what it seals, what it opens, what both hang on.

Sums follow each other. Each is made for one step t, and for the hash h of everything that went
before, so a hospital that was told something else fits no other. ``add`` is all that a coordinator
does. :class:`PlainSession` hides nothing; :mod:`tripheno.exchange.blind` has the same surface.
"""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NoReturn

import numpy as np

from tripheno.errors import BadMessage, BrokenSum, MaskReuse, WrongStep
from tripheno.exchange import field, field_kernels
from tripheno.exchange.roster import digest_of

HEAD = struct.Struct("<4s3xB32s32sQQQ")  # magic, bytes of the name, study, run, epoch, t, words
LONGEST_NAME = 200
MOST_WORDS = 1 << 28
_ALIGN = field.WORD_BYTES


@dataclass(frozen=True)
class _Sent:
    """The one contribution to a step."""

    binding: bytes  # m: all that its masks hang on
    head: bytes
    words: int
    data: bytes


class Session(ABC):
    """Sums of one epoch. ``t`` is the step it stands at, ``h`` the hash of all before it."""

    magic: ClassVar[bytes]
    tags: ClassVar[int]  # words of a contribution that are no numbers

    def __init__(self, name: str, study: bytes, run: str, epoch: int, h: bytes) -> None:
        self.name, self.study, self.run, self.epoch = name, study, run, epoch
        self._t, self._h = 0, h
        self._outbox: dict[int, _Sent] = {}
        self._over = ""

    @property
    def t(self) -> int:
        """The number of the next sum."""
        return self._t

    @property
    def h(self) -> bytes:
        """The hash of all sums so far, kept with a checkpoint and compared between hospitals."""
        return self._h

    def resume_at(self, t: int, h: bytes) -> None:
        """Go on from a checkpoint that was kept before step t, where the hash was h."""
        self._check_ready()
        if self._outbox or self._t:
            raise WrongStep("a checkpoint is taken up before the first sum", where=self.name)
        self._t, self._h = t, digest_of("resume", self._h, _number(t), h)

    def hear(self, label: str, data: bytes) -> None:
        """Something all hospitals were told beside the sums: from here on all hangs on it too."""
        self._check_ready()
        if self._t in self._outbox:
            raise WrongStep("told between a contribution and its total", where=self.name)
        self._h = digest_of("told", self._h, _number(self._t), label.encode(), data)

    def seal(self, name: str, words: np.ndarray, layout: bytes, scales: bytes) -> bytes:
        """Whole numbers |x| < 2⁶⁰ as this hospital's contribution to step t.

        Asked again for the same step it gives the stored bytes; for another content it dies.
        """
        self._check_ready()
        binding = self._bind(name.encode(), layout, scales)
        if self._t not in self._outbox:
            head = self._head(name, len(words) + self.tags)
            masked = self._mask(_whole(words, self.name), binding)
            data = b"".join([head, masked.data])
            self._outbox[self._t] = _Sent(binding, head, len(masked), data)
            self._outbox.pop(self._t - 2, None)
        sent = self._outbox[self._t]
        if sent.binding != binding:
            self._die()
            raise MaskReuse("a second content for one step", where=f"{self.name}, step {self._t}")
        return sent.data

    def again(self, t: int) -> bytes:
        """The stored contribution to this step or the one before, for a message that was lost."""
        if t not in self._outbox:
            raise WrongStep(f"nothing is kept for step {t}", where=self.name)
        return self._outbox[t].data

    def open(self, total: bytes) -> np.ndarray:
        """The whole numbers of the awaited total; goes on to step t + 1.

        A message for another step is refused and changes nothing. Any other fault ends the epoch,
        with one code for all of them.
        """
        self._check_ready()
        sent = self._outbox.get(self._t)
        if sent is None or total[: len(sent.head)] != sent.head:
            raise WrongStep("this total is not awaited", where=f"{self.name}, step {self._t}")
        words = _words(total, len(sent.head), sent.words)
        numbers = None if words is None else self._unmask(words, sent.binding)
        if numbers is None:
            self._break()
        self._h = digest_of("total", sent.binding, total)
        self._t += 1
        return numbers

    def _head(self, name: str, words: int) -> bytes:
        label = name.encode()
        if not 0 < len(label) <= LONGEST_NAME or not words <= MOST_WORDS:
            raise BadMessage("a step's name or size that no message may have", where=self.name)
        run = digest_of("run", self.run.encode())
        fixed = (self.magic, len(label), self.study, run, self.epoch, self._t, words)
        return HEAD.pack(*fixed) + label + bytes(-len(label) % _ALIGN)

    def _bind(self, name: bytes, layout: bytes, scales: bytes) -> bytes:
        """m: what one mask is good for."""
        return digest_of("sum", self._h, _number(self._t), name, layout, scales)

    def _check_ready(self) -> None:
        if self._over:
            raise BrokenSum(self._over, where=f"{self.name}, epoch {self.epoch}")

    def _die(self) -> None:
        """Forget everything that could still seal or open: failing tells nobody anything."""
        self._over = "this epoch is over: a message did not hold"
        self._outbox.clear()

    def _break(self) -> NoReturn:
        self._die()
        raise BrokenSum(
            "what came back is not the sum of what hospitals sent",
            where=f"{self.name}, epoch {self.epoch}, step {self._t}",
            why="it was changed, or hospitals were told different things",
            fix="start the run again: it goes on from the last checkpoint under new keys",
        )

    @abstractmethod
    def _mask(self, numbers: np.ndarray, binding: bytes) -> np.ndarray:
        """Numbers as the words that leave."""

    @abstractmethod
    def _unmask(self, words: np.ndarray, binding: bytes) -> np.ndarray | None:
        """Words of a total as numbers, if they hold."""


class PlainSession(Session):
    """Sums in clear, the same numbers bit for bit: for research on one machine."""

    magic, tags = b"TRP2", 0

    def __init__(self, name: str, study: bytes, run: str, epoch: int) -> None:
        super().__init__(name, study, run, epoch, digest_of("plain", study, run.encode()))

    def _mask(self, numbers: np.ndarray, binding: bytes) -> np.ndarray:
        del binding
        return field.into_field(numbers)

    def _unmask(self, words: np.ndarray, binding: bytes) -> np.ndarray:
        del binding
        return field.out_of_field(words)


def sealed_bytes(name: str, numbers: int) -> int:
    """How long a blind contribution of so many whole numbers is."""
    label = len(name.encode())
    return HEAD.size + label + -label % _ALIGN + _ALIGN * (numbers + 1)


def add(parts: Sequence[bytes]) -> bytes:
    """Every hospital's contribution to one step → their total: all that a coordinator computes."""
    if not parts:
        raise BadMessage("a sum of nothing", where="coordinator")
    head, count = _read_head(parts[0])
    total = np.zeros(count, dtype="<u8")
    for n, part in enumerate(parts, 1):
        where = f"contribution {n} of {len(parts)}"
        if part[: len(head)] != head:
            raise WrongStep("it was made for another step than the first", where=where)
        words = _words(part, len(head), count)
        if words is None:
            raise BadMessage("its length or a word is not the protocol's", where=where)
        field_kernels.add_words(total, words)
    return b"".join([head, total.data])


def _read_head(data: bytes) -> tuple[bytes, int]:
    """The head of a contribution, and how many words it says there are."""
    if len(data) >= HEAD.size:
        magic, label, *_, words = HEAD.unpack_from(data)
        size = HEAD.size + label + -label % _ALIGN
        known = magic in (b"TRB2", PlainSession.magic)
        if known and len(data) == size + words * field.WORD_BYTES and words <= MOST_WORDS:
            return data[:size], words
    raise BadMessage("it is no contribution", where="contribution 1")


def _words(data: bytes, start: int, count: int) -> np.ndarray | None:
    """The words behind a head, if there are so many and each is below p."""
    if len(data) != start + count * field.WORD_BYTES:
        return None
    words = np.frombuffer(data, dtype="<u8", offset=start)
    return words if int(words.max(initial=0)) < field.P else None


def _whole(numbers: np.ndarray, where: str) -> np.ndarray:
    if numbers.dtype != np.dtype("<i8") or numbers.ndim != 1 or not numbers.flags.c_contiguous:
        raise BadMessage("a contribution is one row of whole numbers", where=where)
    if numbers.size and not -field.LARGEST <= numbers.min() <= numbers.max() <= field.LARGEST:
        raise BadMessage("a number that the field does not hold", where=where)
    return numbers


def _number(n: int) -> bytes:
    return n.to_bytes(8, "little")
