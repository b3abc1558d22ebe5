"""What every way of aligning promises, as tests.

A new way inherits them::

    class TestMyAligner(AlignerContract):
        def make_aligner(self, hospitals):
            return MyAligner(seed=0)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

import numpy as np
import pytest

from tripheno.vocabulary.aligners import Aligner, People
from tripheno.vocabulary.tokens import Places

# the seed paper's example: lists that overlap in part
EXAMPLE: dict[str, People] = {
    "one": {"diagnosis": {"250.00": 4, "401.9": 2, "428.0": 9}, "medication": {"insulin": 3}},
    "two": {"diagnosis": {"401.9": 1, "428.0": 5}, "medication": {"aspirin": 8, "insulin": 1}},
    "three": {"diagnosis": {"428.0": 2, "493.90": 7}, "medication": {"albuterol": 6}},
}


def overlapping(hospitals: int, codes: int, seed: int = 0) -> dict[str, People]:
    """Hospitals that each have some of a mode's codes; together they have all."""
    rng = np.random.default_rng(seed)
    every = [f"{n:05d}" for n in range(codes)]
    made: dict[str, People] = {}
    for k in range(hospitals):
        has = rng.random(codes) < 0.4
        has[k::hospitals] = True
        own = {
            code: int(rng.integers(1, 40)) for code, there in zip(every, has, strict=True) if there
        }
        made[f"hospital-{k}"] = {"diagnosis": own, "medication": dict(list(own.items())[:50])}
    return made


class AlignerContract(ABC):
    """Inherit, and say how the aligner is made."""

    @abstractmethod
    def make_aligner(self, hospitals: Mapping[str, People]) -> Aligner:
        """The aligner under test."""

    def _aligned(self, hospitals: dict[str, People]) -> dict[str, Places]:
        places = self.make_aligner(hospitals).align(hospitals)
        assert set(places) == set(hospitals)
        return places

    def _check(self, hospitals: dict[str, People], places: dict[str, Places]) -> None:
        sizes = [place.sizes for place in places.values()]
        assert all(size == sizes[0] for size in sizes)
        for mode in sizes[0]:
            at: dict[int, str] = {}
            for name, people in hospitals.items():
                for code, place in zip(people[mode], places[name].positions[mode], strict=True):
                    assert 0 <= place < sizes[0][mode]
                    assert at.setdefault(int(place), code) == code
            union = {code for people in hospitals.values() for code in people[mode]}
            assert sorted(at.values()) == sorted(union)
            assert sizes[0][mode] == len(union)

    def test_lists_that_overlap_in_part_come_onto_the_same_axes(self) -> None:
        """The seed's example: a code stands at one position, whoever has it."""
        self._check(EXAMPLE, self._aligned(EXAMPLE))

    @pytest.mark.parametrize("hospitals", [1, 2, 3, 10, 50])
    def test_any_number_of_hospitals_get_the_same_axes(self, hospitals: int) -> None:
        """Up to fifty."""
        made = overlapping(hospitals, 120)
        self._check(made, self._aligned(made))

    def test_ten_thousand_codes_in_a_mode_are_aligned(self) -> None:
        """As many as ICD has in use."""
        made = overlapping(3, 10_000)
        self._check(made, self._aligned(made))

    def test_the_same_seed_gives_the_same_positions(self) -> None:
        """So that simulations can be compared."""
        first, second = self._aligned(EXAMPLE), self._aligned(EXAMPLE)
        for name, place in first.items():
            for mode, positions in place.positions.items():
                assert np.array_equal(positions, second[name].positions[mode])

    def test_positions_do_not_follow_the_order_of_codes(self) -> None:
        """In sorted order a hospital could guess what stands between two of its codes."""
        made = overlapping(3, 400)
        for place in self._aligned(made).values():
            positions = place.positions["diagnosis"]
            correlation = np.corrcoef(np.arange(len(positions)), positions)[0, 1]
            assert abs(correlation) < 0.3
