"""What every way of summing promises, as tests.

A new way inherits them::

    class TestMySums(SumsContract):
        def make_sums(self, hospitals):
            return {name: MySums(name) for name in hospitals}, MySums("server")
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

import numpy as np
import pytest

from tripheno.errors import BadMessage
from tripheno.exchange.sums import Arrays, Sums

HOSPITALS = ("northfield", "harbour", "lakeside")
STEP = "iterate/3/1"
FAULTS: dict[str, dict[str, object]] = {
    "a wrong shape": {"mttkrp": np.zeros((4, 3))},
    "a transposed matrix": {"mttkrp": np.zeros((2, 4))},
    "a number that became an array": {"error": np.zeros(1)},
    "a missing field": {"mttkrp": None},
    "an unknown field": {"patient_factor": np.zeros((9, 2))},
    "single precision": {"mttkrp": np.zeros((4, 2), dtype=np.float32)},
    "whole numbers": {"mttkrp": np.zeros((4, 2), dtype=np.int64)},
    "a NaN": {"mttkrp": np.full((4, 2), np.nan)},
    "an infinity": {"error": np.array(np.inf)},
}


def part(seed: int) -> Arrays:
    """One hospital's contribution: a matrix, a vector, a number, entries of both signs."""
    rng = np.random.default_rng(seed)
    return {
        "mttkrp": rng.normal(scale=1e3, size=(4, 2)),
        "review": rng.normal(size=6),
        "error": np.array(rng.normal(scale=1e6)),
    }


def zeros() -> Arrays:
    """What the protocol allows."""
    return {name: np.zeros_like(array) for name, array in part(0).items()}


class SumsContract(ABC):
    """Inherit, and say how the two halves are made; widen ``tolerance`` for rounded sums."""

    tolerance = 1e-12  # relative to the largest entry added

    @abstractmethod
    def make_sums(self, hospitals: tuple[str, ...]) -> tuple[Mapping[str, Sums], Sums]:
        """Each hospital's half (it seals) and the server's (it adds up)."""

    def _total(self, parts: Mapping[str, Arrays], step: str = STEP) -> Arrays:
        sealing, server = self.make_sums(tuple(parts))

        def ask(name: str, plan: bytes) -> dict[str, bytes]:
            sealed = {}
            for hospital, arrays in parts.items():
                again = sealing[hospital].again(name, plan)
                sealed[hospital] = again or sealing[hospital].seal(hospital, name, arrays, plan)
            return sealed

        return server.collect(step, zeros(), ask)

    def _assert_close(self, total: Arrays, expected: Arrays, scale: float) -> None:
        assert set(total) == set(expected)
        for name, array in expected.items():
            assert np.shape(total[name]) == array.shape
            assert np.max(np.abs(total[name] - array)) <= self.tolerance * scale

    @pytest.mark.parametrize("size", [1, 2, 3])
    def test_the_sum_is_the_sum(self, size: int) -> None:
        """What numpy would add up in one place, for one hospital too."""
        parts = {name: part(seed) for seed, name in enumerate(HOSPITALS[:size])}
        expected = {
            name: np.sum([arrays[name] for arrays in parts.values()], axis=0) for name in zeros()
        }
        scale = max(float(np.abs(a).max()) for arrays in parts.values() for a in arrays.values())
        self._assert_close(self._total(parts), expected, scale)

    def test_the_order_of_hospitals_does_not_matter(self) -> None:
        """Names are drawn into the seal, their order is not."""
        parts = {name: part(seed) for seed, name in enumerate(HOSPITALS)}
        scale = max(float(np.abs(a).max()) for arrays in parts.values() for a in arrays.values())
        turned = {name: parts[name] for name in reversed(HOSPITALS)}
        self._assert_close(self._total(turned), self._total(parts), scale)

    def test_zeros_add_up_to_zeros(self) -> None:
        """A hospital with nothing to say changes nothing."""
        total = self._total({name: zeros() for name in HOSPITALS})
        assert all(np.abs(array).max() <= self.tolerance for array in total.values())

    def test_numbers_keep_their_shape(self) -> None:
        """A sum of numbers is a number, not an array of one."""
        total = self._total({name: part(seed) for seed, name in enumerate(HOSPITALS)})
        assert np.shape(total["error"]) == ()
        assert np.shape(total["review"]) == (6,)

    @pytest.mark.parametrize("culprit", HOSPITALS)
    @pytest.mark.parametrize("fault", FAULTS)
    def test_a_part_that_is_not_the_protocols_is_refused(self, fault: str, culprit: str) -> None:
        """At the hospital or at the server, and the refusal names the hospital."""
        changed = {**part(1), **FAULTS[fault]}
        bad = {name: np.asarray(array) for name, array in changed.items() if array is not None}
        parts = {name: bad if name == culprit else part(0) for name in HOSPITALS}
        with pytest.raises(BadMessage) as caught:
            self._total(parts)
        assert culprit in str(caught.value)
        assert not any(name in str(caught.value) for name in HOSPITALS if name != culprit)

    @pytest.mark.parametrize("kept", [0, 1, 8, 0.5, -1])
    def test_a_truncated_part_is_refused(self, kept: float) -> None:
        """Cut anywhere: nothing left, within the head, halfway, one byte short."""
        sealing, server = self.make_sums(HOSPITALS)
        sealed = {name: sealing[name].seal(name, STEP, part(0)) for name in HOSPITALS}
        whole = sealed["harbour"]
        length = int(len(whole) * kept) if kept == 0.5 else int(kept)
        sealed["harbour"] = whole[:length]
        with pytest.raises(BadMessage, match="harbour"):
            server.total(STEP, sealed, zeros())
