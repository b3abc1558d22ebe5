"""The channel of one process keeps the contract of all channels."""

from __future__ import annotations

import time

import pytest

from tripheno.errors import BadMessage, RunFailed
from tripheno.federation.transport import InProcessChannel
from tripheno.testing.channel_contract import ChannelContract, EchoHospital


class TestInProcessChannel(ChannelContract):
    def make_channel(self, responders):
        return InProcessChannel(responders)


def test_a_federation_without_hospitals_is_refused():
    with pytest.raises(BadMessage, match="no hospital"):
        InProcessChannel({}).round("begin", b"")


def test_after_a_failure_only_the_hospital_that_failed_is_asked_again():
    first, last = EchoHospital("first"), EchoHospital("last")
    faults = [RunFailed("out of memory")]

    def shaky(step, data):
        if faults:
            raise faults.pop()
        return b"mended"

    channel = InProcessChannel({"first": first.respond, "shaky": shaky, "last": last.respond})
    with pytest.raises(RunFailed):
        channel.round("iterate/1", b"?")
    assert channel.round("iterate/1", b"?") == {
        "first": b"first iterate/1 1",
        "shaky": b"mended",
        "last": b"last iterate/1 1",
    }
    assert len(first.asked) == 1


def test_an_exception_of_any_kind_reaches_the_caller_as_it_was():
    def fail(step, data):
        raise ZeroDivisionError("at home")

    with pytest.raises(ZeroDivisionError, match="at home"):
        InProcessChannel({"one": fail}).round("begin", b"")


def test_seconds_belong_to_the_hospital_that_spent_them():
    def slowly(step, data):
        time.sleep(0.05)
        return b""

    channel = InProcessChannel({"slow": slowly, "fast": lambda step, data: b""})
    began = time.perf_counter()
    channel.round("begin", b"")
    both = time.perf_counter() - began
    slow, fast = (channel.traffic[name].seconds for name in ("slow", "fast"))
    assert slow >= 0.05
    assert slow + fast <= both  # the other's seconds were not counted again
