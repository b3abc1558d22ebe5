"""What every way of adding up promises to a study's program, as tests.

A new way inherits them::

    class TestMySums(CommunicatorContract):
        def make(self, hospitals):
            return Communicator(hospitals, {name: mine(name) for name in hospitals}, my_carrier)

Blind sums inherit :class:`VerifiedContract`: whatever is not the awaited total is refused.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Barrier
from typing import Any

import numpy as np
import pytest

from tripheno.errors import BadMessage, BrokenSum, DriftedApart, TriphenoError, WrongStep
from tripheno.exchange.communicator import Carrier, Communicator, InProcess, combine
from tripheno.exchange.messages import Contribution
from tripheno.exchange.registry import How, declared, shaped

HOSPITALS = ("harbour", "lakeside", "northfield")
FOUR = (*HOSPITALS, "southport")
TOLERANCE = 1e-12  # relative to the largest entry added


@declared("contract", "none: numbers of a test", lambda _plan: 0)
@dataclass(frozen=True)
class Numbers(Contribution):
    """A matrix, a vector and a number, entries of both signs."""

    error: float
    mttkrp: np.ndarray = shaped(4, 2)
    review: np.ndarray = shaped(6)


def numbers(name: str) -> Numbers:
    """One hospital's contribution."""
    rng = np.random.default_rng(list(name.encode()))
    return Numbers(
        float(rng.normal(scale=1e6)), rng.normal(scale=1e3, size=(4, 2)), rng.normal(size=6)
    )


class Meeting(Carrier):
    """Hospitals in threads of their own: everybody's part, then one answer for all."""

    def __init__(self, size: int) -> None:
        self._parts: dict[str, bytes] = {}
        self._everybody = Barrier(size, timeout=60.0)

    def exchange(self, how: How, step: str, parts: Mapping[str, bytes]) -> bytes:
        """Wait for all parts; combine; wait until all have done so."""
        del step
        self._parts.update(parts)
        self._everybody.wait()
        answer = combine(how, {name: self._parts[name] for name in sorted(self._parts)})
        if self._everybody.wait() == 0:
            self._parts.clear()
        self._everybody.wait()
        return answer


def apart(federation: Communicator, program: Callable[[Communicator, str], Any]) -> dict[str, Any]:
    """Every hospital runs the program for itself; what each found, or the error it met."""
    meeting = Meeting(federation.size)

    def run(name: str) -> Any:
        local_hospitals = {name: federation.local_hospitals[name]}
        try:
            return program(Communicator(federation.hospitals, local_hospitals, meeting), name)
        except TriphenoError as fault:
            return fault

    with ThreadPoolExecutor(federation.size) as pool:
        return dict(zip(federation.hospitals, pool.map(run, federation.hospitals), strict=True))


class CommunicatorContract(ABC):
    """Inherit, and say how a federation of these hospitals is made, all in this process."""

    @abstractmethod
    def make(self, hospitals: tuple[str, ...]) -> Communicator:
        """A federation whose keys, if any, are agreed on."""

    def _check(self, total: Numbers, hospitals: tuple[str, ...]) -> None:
        for key, array in total.arrays().items():
            parts = [numbers(name).arrays()[key] for name in hospitals]
            assert array.shape == parts[0].shape
            scale = max(float(np.abs(part).max()) for part in parts)
            assert np.abs(array - np.sum(parts, axis=0)).max() <= TOLERANCE * scale

    @pytest.mark.parametrize("hospitals", [HOSPITALS, FOUR], ids=len)
    def test_the_sum_is_the_sum(self, hospitals: tuple[str, ...]) -> None:
        """What numpy would add up in one place, step after step."""
        federation = self.make(hospitals)
        for step in range(3):
            self._check(federation.sum(f"fit/{step}", numbers).value, hospitals)

    def test_the_order_of_hospitals_does_not_matter(self) -> None:
        """Nor does it to who runs where."""
        self._check(self.make(HOSPITALS[::-1]).sum("fit/0", numbers).value, HOSPITALS)

    def test_every_hospital_for_itself_reads_the_same_total(self) -> None:
        """One process for all, or one for each: bit for bit the same."""
        together = self.make(HOSPITALS).sum("fit/0", numbers).value
        found = apart(self.make(HOSPITALS), lambda all_, _: all_.sum("fit/0", numbers).value)
        for total in found.values():
            assert total.pack() == together.pack()

    def test_zeros_add_up_to_zeros(self) -> None:
        """A hospital with nothing to say changes nothing."""
        nothing = Numbers(0.0, np.zeros((4, 2)), np.zeros(6))
        total = self.make(HOSPITALS).sum("fit/0", lambda _name: nothing).value
        assert not any(array.any() for array in total.arrays().values())

    @pytest.mark.parametrize(("voters", "decided"), [(0, False), (2, False), (3, True), (4, True)])
    def test_more_than_half_decide_and_a_tie_means_go_on(self, voters: int, decided: bool) -> None:
        """Of four hospitals."""

        def program(federation: Communicator, name: str) -> bool:
            votes = {"stop": FOUR.index(name) < voters, "never": False}
            found = federation.sum("fit/0", numbers, votes=votes).decided
            assert not found["never"]
            return found["stop"]

        assert set(apart(self.make(FOUR), program).values()) == {decided}

    @pytest.mark.parametrize(("choices", "chosen"), [((3, 1, 1, 2), 1), ((2, 2, 0, 0), 0)])
    def test_most_votes_choose_and_of_equals_the_lowest(
        self, choices: tuple[int, ...], chosen: int
    ) -> None:
        """Of four hospitals."""
        found = apart(
            self.make(FOUR), lambda all_, name: all_.choose("choice/0", choices[FOUR.index(name)])
        )
        assert set(found.values()) == {chosen}

    @pytest.mark.parametrize(("drift", "ends"), [(1e-13, False), (1e-6, True)])
    def test_hospitals_that_drifted_apart_end_with_that_error(
        self, drift: float, ends: bool
    ) -> None:
        """Round-off is no drift."""

        def program(federation: Communicator, name: str) -> None:
            state = np.ones((5, 2))
            if name == HOSPITALS[1]:
                state[0] += drift
            federation.sum("fit/0", numbers, shared=(state,))

        faults = apart(self.make(HOSPITALS), program).values()
        assert all(isinstance(fault, DriftedApart) for fault in faults) is ends
        assert all(fault is None for fault in faults) is not ends

    @pytest.mark.parametrize("culprit", HOSPITALS)
    @pytest.mark.parametrize("bad", [np.nan, np.inf])
    def test_numbers_that_are_not_finite_are_refused(self, culprit: str, bad: float) -> None:
        """Whoever contributes them."""

        def contribute(name: str) -> Numbers:
            good = numbers(name)
            return Numbers(bad, good.mttkrp, good.review) if name == culprit else good

        with pytest.raises(BadMessage):
            self.make(HOSPITALS).sum("fit/0", contribute)

    def test_a_total_with_other_fields_is_refused(self) -> None:
        """What came back is the message that was asked for."""
        federation = self.make(HOSPITALS)
        federation.carrier = Tampered("fit/0", lambda _answer, earlier: earlier)
        federation.choose("choice/0", 0)
        with pytest.raises((BadMessage, WrongStep)):
            federation.sum("fit/0", numbers)


class Tampered(InProcess):
    """A coordinator that hands on ``change(answer, earlier answer)`` at one step."""

    def __init__(self, at: str, change: Callable[[bytes, bytes], bytes]) -> None:
        super().__init__(self._hear)
        self.at, self.change, self.earlier = at, change, b""
        self.parts: list[tuple[str, str, bytes]] = []

    def _hear(self, step: str, hospital: str, _answer: bytes, part: bytes) -> None:
        self.parts.append((step, hospital, part))

    def exchange(self, how: How, step: str, parts: Mapping[str, bytes]) -> bytes:
        """Combine, and keep the answer."""
        answer = super().exchange(how, step, parts)
        handed = self.change(answer, self.earlier) if step == self.at else answer
        self.earlier = answer
        return handed


TAMPERING: dict[str, tuple[Callable[[bytes, bytes], bytes], type[TriphenoError]]] = {
    "of an earlier step": (lambda _answer, earlier: earlier, WrongStep),
    "without its head": (lambda answer, _earlier: answer[8:], WrongStep),
    "of nothing": (lambda _answer, _earlier: b"", WrongStep),
    "cut short": (lambda answer, _earlier: answer[:-8], BrokenSum),
    "too long": (lambda answer, _earlier: answer + bytes(8), BrokenSum),
    "changed in one bit": (
        lambda answer, _earlier: answer[:-9] + bytes([answer[-9] ^ 1]) + answer[-8:], BrokenSum,
    ),
}  # fmt: skip


class VerifiedContract(CommunicatorContract):
    """Sums whose total nobody on the way can read, change or exchange."""

    @pytest.mark.parametrize("fault", TAMPERING)
    def test_what_is_not_the_awaited_total_is_refused_with_its_code(self, fault: str) -> None:
        """Out of turn, twice, of another shape, of another step."""
        change, error = TAMPERING[fault]
        federation = self.make(HOSPITALS)
        federation.carrier = Tampered("fit/1", change)
        self._check(federation.sum("fit/0", numbers).value, HOSPITALS)
        with pytest.raises(error):
            federation.sum("fit/1", numbers)

    def test_after_a_total_that_does_not_hold_nothing_more_is_contributed(self) -> None:
        """The epoch's keys are gone."""
        federation = self.make(HOSPITALS)
        federation.carrier = carrier = Tampered("fit/1", TAMPERING["changed in one bit"][0])
        federation.sum("fit/0", numbers)
        with pytest.raises(BrokenSum):
            federation.sum("fit/1", numbers)
        sent = len(carrier.parts)
        for step in ("fit/1", "fit/2"):
            with pytest.raises(BrokenSum):
                federation.sum(step, numbers)
        assert len(carrier.parts) == sent

    def test_nothing_is_contributed_twice_under_one_mask(self) -> None:
        """The same numbers for the same step, again: no word is the same."""
        federation = self.make(HOSPITALS)
        federation.carrier = carrier = Tampered("", lambda answer, _earlier: answer)
        for _ in range(4):
            federation.sum("fit/0", numbers)
        size = 8 * sum(array.size for array in numbers("harbour").arrays().values())
        words = [np.frombuffer(part[-size:], "<u8") for _, _, part in carrier.parts]
        assert len(np.unique(np.concatenate(words))) == size // 8 * len(words)
