"""What every channel promises, as tests.

A new channel inherits them::

    class TestMyChannel(ChannelContract):
        def make_channel(self, responders):
            return MyChannel(responders)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from tripheno.errors import RunFailed
from tripheno.federation.transport import Channel, Responder

HOSPITALS = ("northfield", "harbour", "lakeside")
FIVE_MEGABYTES = 5_000_000


@dataclass
class EchoHospital:
    """A hospital that remembers what it was asked and answers with its name and a number."""

    name: str
    asked: list[tuple[str, bytes]] = field(default_factory=list)

    def respond(self, step: str, data: bytes) -> bytes:
        """Never the same answer twice, so that a remembered one is told from a new one."""
        self.asked.append((step, data))
        return f"{self.name} {step} {len(self.asked)}".encode()


def local_hospitals() -> dict[str, EchoHospital]:
    """One service per hospital."""
    return {name: EchoHospital(name) for name in HOSPITALS}


class ChannelContract(ABC):
    """Inherit, and say how the channel is made. ``failure`` is what a failed round raises."""

    failure: type[Exception] = RunFailed

    @abstractmethod
    def make_channel(self, responders: Mapping[str, Responder]) -> Channel:
        """The channel under test, with one responder per hospital."""

    def _channel(self, staff: Mapping[str, EchoHospital]) -> Channel:
        return self.make_channel({name: local.respond for name, local in staff.items()})

    def test_the_hospitals_are_the_members_in_the_order_given(self) -> None:
        """The order is fixed: sums are taken in it."""
        channel = self._channel(local_hospitals())
        assert tuple(channel.hospitals) == HOSPITALS
        assert tuple(channel.traffic) == HOSPITALS

    def test_every_hospital_gets_the_same_bytes(self) -> None:
        """And the name of the step."""
        staff = local_hospitals()
        message = bytes(range(256))
        self._channel(staff).round("iterate/1/0", message)
        assert [local.asked for local in staff.values()] == [[("iterate/1/0", message)]] * 3

    def test_answers_come_back_by_name(self) -> None:
        """No hospital's answer is taken for another's."""
        answers = self._channel(local_hospitals()).round("totals", b"?")
        assert answers == {name: f"{name} totals 1".encode() for name in HOSPITALS}

    def test_the_same_step_asked_again_gives_the_same_bytes_without_work(self) -> None:
        """A hospital whose answer was lost is asked again, and must not take the step twice."""
        staff = local_hospitals()
        channel = self._channel(staff)
        first = channel.round("iterate/1/0", b"?")
        assert channel.round("iterate/1/0", b"?") == first
        assert [len(local.asked) for local in staff.values()] == [1, 1, 1]

    def test_a_new_step_is_new_work(self) -> None:
        """Only an equal step is remembered, not an equal broadcast."""
        staff = local_hospitals()
        channel = self._channel(staff)
        first = channel.round("iterate/1/0", b"?")
        second = channel.round("iterate/1/1", b"?")
        assert all(first[name] != second[name] for name in HOSPITALS)
        assert [len(local.asked) for local in staff.values()] == [2, 2, 2]

    @pytest.mark.parametrize("broken", HOSPITALS)
    def test_an_exception_in_one_hospital_stops_the_round(self, broken: str) -> None:
        """Wherever that hospital stands: there are no partial results."""

        def fail(step: str, data: bytes) -> bytes:
            raise RunFailed("the disk is full", where=f"{broken}, {step}, {len(data)} bytes")

        responders: dict[str, Responder] = {name: EchoHospital(name).respond for name in HOSPITALS}
        channel = self.make_channel({**responders, broken: fail})
        answers = None
        with pytest.raises(self.failure):
            answers = channel.round("iterate/1/0", b"?")
        assert answers is None

    def test_traffic_counts_every_byte(self) -> None:
        """Down and up, per hospital, over several rounds; seconds only grow."""
        sizes = {"northfield": 10, "harbour": 2_000, "lakeside": 0}
        channel = self.make_channel(
            {name: _answering(b"x" * size) for name, size in sizes.items()},
        )
        assert all((t.bytes_down, t.bytes_up) == (0, 0) for t in channel.traffic.values())
        channel.round("one", b"123")
        channel.round("two", b"4567")
        for name, size in sizes.items():
            traffic = channel.traffic[name]
            assert (traffic.bytes_down, traffic.bytes_up) == (7, 2 * size)
            assert traffic.seconds >= 0.0
            assert traffic.answers_in > 0.0  # how long its answers take, whoever measured it

    def test_an_empty_broadcast_and_an_empty_answer_are_messages(self) -> None:
        """A hospital that only listens answers with nothing, which is not the same as silence."""
        channel = self.make_channel(dict.fromkeys(HOSPITALS, _echo))
        assert channel.round("finish", b"") == dict.fromkeys(HOSPITALS, b"")

    def test_five_megabytes_arrive_whole_in_both_directions(self) -> None:
        """Larger than any buffer on the way."""
        message = bytes(range(250)) * (FIVE_MEGABYTES // 250)
        channel = self.make_channel(dict.fromkeys(HOSPITALS, _echo))
        answers = channel.round("begin", message)
        assert all(answers[name] == message for name in HOSPITALS)
        assert channel.traffic["harbour"].bytes_down == FIVE_MEGABYTES
        assert channel.traffic["harbour"].bytes_up == FIVE_MEGABYTES


def _echo(step: str, data: bytes) -> bytes:
    del step
    return data


def _answering(answer: bytes) -> Responder:
    return lambda _step, _data: answer
