"""The one collective operation of a study: a sum over all hospitals, handed to all of them.

Every hospital runs the whole study program against a :class:`Communicator`. In a simulation all of
them live in one process; over the engine each process has one. A *carrier* brings the bytes of the
members here to the coordinator, who only adds, and brings the same bytes back to everybody.

Whatever a program decides from floating-point numbers is a vote: it rides in a sum, and more than
half decide. Every sum carries a projection of the state that hospitals share, so that two that
drifted apart end with a clear error and not with two results.
"""

from __future__ import annotations

import itertools
import json
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np

from tripheno.errors import BadMessage, DriftedApart
from tripheno.exchange.blind import BlindSession
from tripheno.exchange.fixed_point import NARROWEST, Layout
from tripheno.exchange.keys import from_system
from tripheno.exchange.messages import Contribution, pack, unpack
from tripheno.exchange.registry import Declaration, Field, How, declaration_of, declared, shaped
from tripheno.exchange.session import Session, add
from tripheno.exchange.words import Noise, Scales, decode, encode, noise_from, overflow_of

C = TypeVar("C", bound=Contribution)
Arrays = dict[str, np.ndarray]
VOTES, STATE = "votes", "state"  # what any sum may carry besides its own fields
PROJECTIONS = 2
CARRIED_BITS = 10  # room for a vote, and for a projection of unit columns
DRIFT = 1e-9  # relative: further apart are two results


class Gatekeeper(Protocol):
    """What stands between a hospital and the line: it checks, writes down, and lets pass."""

    def pass_out(
        self, step: str, declaration: Declaration, data: bytes, shapes: Mapping[str, Any] | None
    ) -> bytes:
        """The message, if it may leave."""

    def arrived(self, step: str, data: bytes) -> None:
        """What came back."""

    def resize(self, codes: Mapping[str, int]) -> None:
        """The axes have other sizes from now on."""


class OpenGatekeeper:
    """No gate: for tests, and for data that are nobody's."""

    def pass_out(
        self, step: str, declaration: Declaration, data: bytes, shapes: Mapping[str, Any] | None
    ) -> bytes:
        """Everything passes."""
        del step, declaration, shapes
        return data

    def arrived(self, step: str, data: bytes) -> None:
        """Nothing is written down."""

    def resize(self, codes: Mapping[str, int]) -> None:
        """Nothing hangs on it."""


@dataclass
class LocalHospital:
    """One hospital in this process: its session (none: sums in clear) and its gate."""

    session: Session | None
    gatekeeper: Gatekeeper
    noise: Noise = field(default_factory=lambda: noise_from(from_system, "noise"))


@dataclass
class Traffic:
    """What one hospital received, sent and computed so far."""

    bytes_down: int = 0
    bytes_up: int = 0
    seconds: float = 0.0
    rounds: int = 0


class Carrier(ABC):
    """Brings the members' bytes to the coordinator and the answer back to them."""

    @abstractmethod
    def exchange(self, how: How, step: str, parts: Mapping[str, bytes]) -> bytes:
        """The coordinator's answer to one step, the same for every hospital."""


Listener = Callable[[str, str, bytes, bytes], None]
"""Told of every message: ``listen(step, hospital, answer, part)``."""


class InProcess(Carrier):
    """The coordinator in the same process: a whole federation on one machine."""

    def __init__(self, listen: Listener | None = None) -> None:
        self._listen = listen

    def exchange(self, how: How, step: str, parts: Mapping[str, bytes]) -> bytes:
        """Combine at once."""
        answer = combine(how, parts)
        if self._listen is not None:
            for name, part in parts.items():
                self._listen(step, name, answer, part)
        return answer


# ── what the coordinator does: it adds, hands on, unites, keeps ───────────────────────────────


def combine(how: How, parts: Mapping[str, bytes]) -> bytes:
    """The coordinator's whole part in a step."""
    if how == "sum":
        return _added(list(parts.values()))
    if how == "gather":
        return bundle(parts)
    if how == "unite":
        return united(parts.values())
    return b""  # a release is kept, not answered


def _added(parts: Sequence[bytes]) -> bytes:
    if parts[0][: len(BlindSession.magic)] == BlindSession.magic:
        return add(parts)
    totals: Arrays = {}
    for part in parts:
        arrays = unpack(part, where="a sum in clear")
        if totals and {k: a.shape for k, a in arrays.items()} != {
            k: a.shape for k, a in totals.items()
        }:
            raise BadMessage("the fields are not the protocol's", where="a sum in clear")
        with np.errstate(over="ignore"):  # refused below
            totals = {k: np.asarray(totals[k] + a) for k, a in arrays.items()} if totals else arrays
    if not all(np.isfinite(array).all() for array in totals.values()):
        raise BadMessage("the sum is not finite")
    return pack(totals)


def bundle(parts: Mapping[str, bytes]) -> bytes:
    """Everybody's bytes as one block."""
    head = json.dumps([[name, len(parts[name])] for name in sorted(parts)]).encode()
    return len(head).to_bytes(4, "little") + head + b"".join(parts[name] for name in sorted(parts))


def unbundled(data: bytes, hospitals: Sequence[str], step: str) -> dict[str, bytes]:
    """Everybody's bytes, one part of every hospital and no other."""
    length = int.from_bytes(data[:4], "little")
    try:
        sizes = [(str(name), int(size)) for name, size in json.loads(data[4 : 4 + length])]
    except (ValueError, TypeError, OverflowError, RecursionError):
        raise BadMessage("cannot be read", where=step) from None
    found, at = {}, 4 + length
    for name, size in sizes:
        if size < 0:
            raise BadMessage("cannot be read", where=step)
        found[name] = data[at : at + size]
        at += size
    if at != len(data) or sorted(found) != sorted(hospitals) or len(sizes) != len(found):
        raise BadMessage("not one part of every hospital", where=step)
    if bundle(found) != data:
        raise BadMessage("not as it is written", where=step)
    return found


RECORD = 32  # bytes of an opaque token


def united(lists: Iterable[bytes]) -> bytes:
    """The sorted union of lists of records of equal length."""
    found: set[bytes] = set()
    for block in lists:
        if len(block) % RECORD:
            raise BadMessage("a list of tokens of the wrong length")
        found.update(block[at : at + RECORD] for at in range(0, len(block), RECORD))
    return b"".join(sorted(found))


# ── what every hospital's program calls ───────────────────────────────────────────────────────


MOST_OPTIONS = 16


@declared(
    "choice", "none: which way this hospital's program would go",
    lambda plan: plan.fits * plan.iterations * plan.choices,
)  # fmt: skip
@dataclass(frozen=True)
class Choice(Contribution):
    """A decision that the next sum hangs on: 1 for the option chosen."""

    chosen: np.ndarray = shaped(MOST_OPTIONS)


class Total(NamedTuple, Generic[C]):
    """A sum, and what more than half of the hospitals decided with it."""

    value: C
    decided: dict[str, bool]


class Communicator:
    """The hospitals of a study as its program sees them."""

    def __init__(
        self,
        hospitals: Sequence[str],
        local_hospitals: Mapping[str, LocalHospital],
        carrier: Carrier,
    ) -> None:
        self.hospitals, self.local_hospitals, self.carrier = (
            tuple(hospitals),
            dict(local_hospitals),
            carrier,
        )
        self.traffic = {name: Traffic() for name in self.local_hospitals}
        self.scales = Scales(len(self.hospitals))

    @property
    def size(self) -> int:
        """K, the number of hospitals."""
        return len(self.hospitals)

    @property
    def members(self) -> tuple[str, ...]:
        """The hospitals that live in this process."""
        return tuple(self.local_hospitals)

    def sum(
        self,
        step: str,
        contribute: Callable[[str], C],
        *,
        votes: Mapping[str, bool] | None = None,
        shared: Sequence[np.ndarray] = (),
    ) -> Total[C]:
        """Every hospital's contribution added up, votes counted, shared state compared.

        ``contribute(hospital)`` is called once for every member of this process.
        """
        votes, own = votes or {}, projections(shared)
        carried: Arrays = {} if not shared else {STATE: own}
        if votes:
            carried[VOTES] = np.array([float(vote) for vote in votes.values()])
        parts: dict[str, Arrays] = {}
        for name in self.members:
            started = time.perf_counter()
            made = contribute(name)
            parts[name] = {**made.arrays(), **carried}
            self.traffic[name].seconds += time.perf_counter() - started
        total = self._total(step, declaration_of(made), parts)
        if shared:
            self._check_state(step, total.pop(STATE), own)
        counted = total.pop(VOTES, np.zeros(0))
        decided = {name: bool(n > self.size / 2) for name, n in zip(votes, counted, strict=True)}
        return Total(type(made).from_arrays(total), decided)

    def gather(
        self, step: str, declaration: Declaration, give: Callable[[str], bytes]
    ) -> dict[str, bytes]:
        """Everybody's bytes, handed to everybody: greetings, names, the baseline `local`."""
        answer = self._opaque(step, declaration, give)
        return unbundled(answer, self.hospitals, step)

    def unite(self, step: str, declaration: Declaration, give: Callable[[str], bytes]) -> bytes:
        """The sorted union of everybody's opaque tokens."""
        return self._opaque(step, declaration, give)

    def release(self, step: str, declaration: Declaration, give: Callable[[str], bytes]) -> None:
        """Something for the coordinator to keep."""
        self._opaque(step, declaration, give)

    def resize(self, codes: Mapping[str, int]) -> None:
        """Tell every gate what sizes the axes have from now on."""
        for local in self.local_hospitals.values():
            local.gatekeeper.resize(codes)

    # ── the way out and back ──────────────────────────────────────────────────────────────────

    def _opaque(self, step: str, declaration: Declaration, give: Callable[[str], bytes]) -> bytes:
        sent = {}
        for name, local in self.local_hospitals.items():
            started = time.perf_counter()
            sent[name] = local.gatekeeper.pass_out(step, declaration, give(name), None)
            self.traffic[name].seconds += time.perf_counter() - started
        return self._exchange(declaration.how, step, sent)

    def _exchange(self, how: How, step: str, sent: Mapping[str, bytes]) -> bytes:
        answer = self.carrier.exchange(how, step, sent)
        for name, data in sent.items():
            traffic = self.traffic[name]
            traffic.bytes_up += len(data)
            traffic.bytes_down += len(answer)
            traffic.rounds += 1
            self.local_hospitals[name].gatekeeper.arrived(step, answer)
        return answer

    def _total(self, step: str, declaration: Declaration, parts: Mapping[str, Arrays]) -> Arrays:
        first = next(iter(self.local_hospitals.values()))
        if (
            self.size == 1
            and first.session is None
            and isinstance(first.gatekeeper, OpenGatekeeper)
        ):
            (only,) = parts.values()  # nothing to add to, nobody to hide from
            return dict(only)
        shapes = {name: array.shape for name, array in next(iter(parts.values())).items()}
        if first.session is None:
            sent = {
                name: self.local_hospitals[name].gatekeeper.pass_out(
                    step, declaration, pack(arrays), shapes
                )
                for name, arrays in parts.items()
            }
            return unpack(self._exchange("sum", step, sent), where=step)
        return self._blind_total(step, declaration, parts, Layout.named(shapes), shapes)

    def _blind_total(
        self,
        step: str,
        declaration: Declaration,
        parts: Mapping[str, Arrays],
        layout: Layout,
        shapes: Mapping[str, Any],
    ) -> Arrays:
        """Seal, exchange, open; again on another scale where a number does not fit, or is tiny."""
        least = least_exponents(layout, declaration.fields)
        exponents = self.scales.exponents(step, layout, least)
        failed = np.full(layout.lanes, NARROWEST)
        for widening in itertools.count():
            named = step if widening == 0 else f"{step}/wider{widening}"
            sent = {}
            for name, arrays in parts.items():
                started, local = time.perf_counter(), self.local_hospitals[name]
                assert local.session is not None  # sums are blind for all or for none
                words = encode(layout, layout.flat(arrays), exponents, self.size, local.noise)
                sealed = local.session.seal(named, words, layout.digest, exponents.tobytes())
                sent[name] = local.gatekeeper.pass_out(named, declaration, sealed, shapes)
                self.traffic[name].seconds += time.perf_counter() - started
            words = self._opened(self._exchange("sum", named, sent))
            overflow = overflow_of(layout, words)
            if overflow.any():
                failed = np.where(overflow, exponents, failed)
                exponents = self.scales.widened(exponents, overflow, widening)
                continue
            coarse = widening == 0 and self.scales.too_coarse(step, layout, words)
            self.scales.learn(step, layout, exponents, words, failed, least)
            if not coarse:
                return decode(layout, words, exponents, self.size)
            exponents = self.scales.exponents(step, layout, least)
        raise AssertionError  # widening ends with an error of its own

    def _opened(self, total: bytes) -> np.ndarray:
        """Every session of this process goes on with the same total; the words are the same."""
        words = None
        for name, local in self.local_hospitals.items():
            started = time.perf_counter()
            assert local.session is not None
            words = local.session.open(total)
            self.traffic[name].seconds += time.perf_counter() - started
        assert words is not None
        return words

    def _check_state(self, step: str, total: np.ndarray, own: np.ndarray) -> None:
        apart = np.abs(total - self.size * own)
        if (apart > DRIFT * self.size * (1.0 + np.abs(own))).any():
            raise DriftedApart("the hospitals' programs no longer agree", where=f"step {step[:80]}")

    def choose(self, step: str, choice: int) -> int:
        """The option most hospitals choose, of equals the lowest: the next sum hangs on it."""
        chosen = np.zeros(MOST_OPTIONS)
        chosen[choice] = 1.0
        total = self.sum(step, lambda _name: Choice(chosen)).value
        return int(total.chosen.argmax())


@lru_cache(maxsize=256)
def least_exponents(layout: Layout, fields: tuple[Field, ...]) -> np.ndarray:
    """Votes and reviews are zeros at first: their lanes are not taken for narrow ones."""
    known = {field.name: field.least for field in fields} | dict.fromkeys(
        (VOTES, STATE), CARRIED_BITS
    )
    parts = [np.full(math.prod(shape), known.get(name, NARROWEST)) for name, shape in layout.arrays]
    least = np.full(layout.lanes, NARROWEST, dtype="<i2")
    np.maximum.at(least, layout.lane_of, np.concatenate(parts).astype("<i2"))
    return least


def in_clear(hospitals: Iterable[str], listen: Listener | None = None) -> Communicator:
    """A federation in one process that adds in clear: for research, and where nothing is hidden."""
    names = tuple(hospitals)
    return Communicator(
        names, {name: LocalHospital(None, OpenGatekeeper()) for name in names}, InProcess(listen)
    )


def projections(shared: Sequence[np.ndarray]) -> np.ndarray:
    """The shared state as two numbers: sums of its entries under fixed signs."""
    return np.array([
        sum(float((one.ravel() * _signs(one.size, n, p)).sum()) for n, one in enumerate(shared))
        for p in range(PROJECTIONS)
    ])  # fmt: skip


@lru_cache(maxsize=64)
def _signs(size: int, n: int, p: int) -> np.ndarray:
    rng = np.random.default_rng([size, n, p])
    return np.asarray(rng.choice([-1.0, 1.0], size) / max(np.sqrt(size), 1.0))
