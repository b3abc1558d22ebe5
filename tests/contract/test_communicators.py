"""Sums in clear and blind sums keep the contract of a study's communicator."""

from __future__ import annotations

import pytest

from tripheno.errors import TooFewHospitals
from tripheno.study.makers import Maker
from tripheno.testing.communicator_contract import HOSPITALS, CommunicatorContract, VerifiedContract


class TestInClear(CommunicatorContract):
    def make(self, hospitals):
        return Maker("plain")(hospitals)


class TestBlind(VerifiedContract):
    def make(self, hospitals):
        return Maker("blind")(hospitals)


@pytest.mark.parametrize("size", [1, 2])
def test_fewer_than_three_hospitals_are_refused_with_the_plain_reason(size):
    with pytest.raises(TooFewHospitals, match="each sees the other's contribution"):
        Maker("blind")(HOSPITALS[:size])


def test_a_simulation_is_blind_from_three_hospitals_on_unless_told_otherwise():
    kinds = [Maker().of(tuple(map(str, range(size)))) for size in (1, 2, 3, 50)]
    assert kinds == ["plain", "plain", "blind", "blind"]
    assert Maker("plain").of(HOSPITALS) == "plain"
