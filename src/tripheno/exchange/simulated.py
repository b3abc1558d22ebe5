"""Secure sums for a federation inside one process: every member's keys are made here."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from itertools import count
from typing import Literal

from tripheno.errors import TooFewHospitals
from tripheno.exchange.keys import Identity, KeyDesk, Roster, from_seed, from_system
from tripheno.exchange.secure import HospitalSums, ServerSums
from tripheno.exchange.sums import MakeSums, Sums, plain_sums

SumsKind = Literal["secure", "plain"]
FEWEST = 3


class SecureSums:
    """Makes both halves of secure sums for one run after the other, each under fresh keys.

    Keys come from the operating system, or from a seed where runs are to be compared.
    """

    def __init__(self, seed: int | None = None, *, allow_two: bool = False) -> None:
        self.seed, self.allow_two = seed, allow_two
        self._runs = count(1)

    def __call__(self, hospitals: tuple[str, ...]) -> tuple[Mapping[str, Sums], Sums]:
        """Halves for a new run of these hospitals."""
        return self.halves(hospitals)

    def halves(self, hospitals: tuple[str, ...]) -> tuple[dict[str, HospitalSums], ServerSums]:
        """The same, by their own types."""
        check_enough(len(hospitals), allow_two=self.allow_two)
        if self.seed is not None:
            return seeded_halves(self.seed, f"{self.seed}/{next(self._runs)}", hospitals)
        identities = {name: Identity.from_bytes(from_system("ed25519")) for name in hospitals}
        members = tuple((name, one.public) for name, one in identities.items())
        roster = Roster(secrets.token_hex(16), members)
        halves = {
            name: HospitalSums(KeyDesk(name, one, roster, from_system))
            for name, one in identities.items()
        }
        return halves, ServerSums(roster)


def seeded_halves(
    seed: int, run: str, hospitals: tuple[str, ...]
) -> tuple[dict[str, HospitalSums], ServerSums]:
    """Both halves of a run whose keys follow a seed: anybody with the seed can open it."""
    identities = {name: _seeded_identity(seed, run, name) for name in hospitals}
    roster = Roster(run, tuple((name, one.public) for name, one in identities.items()))
    halves = {
        name: HospitalSums(KeyDesk(name, one, roster, from_seed(seed, f"{run}/{name}")))
        for name, one in identities.items()
    }
    return halves, ServerSums(roster, from_seed(seed, f"{run}/"))


def _seeded_identity(seed: int, run: str, name: str) -> Identity:
    return Identity.from_bytes(from_seed(seed, f"{run}/{name}")("ed25519"))


def check_enough(hospitals: int, *, allow_two: bool) -> None:
    """Three hospitals at least: of two, each sees the other's contribution."""
    if hospitals < FEWEST and not allow_two:
        raise TooFewHospitals(
            f"secure sums of {hospitals} hospital(s)",
            why="with two, each sees the other's contribution: the sum less its own",
            fix="find a third, or accept that with allow_two",
        )


def sums_for(kind: SumsKind | None, hospitals: int, seed: int) -> tuple[SumsKind, MakeSums]:
    """How a simulation adds up: as asked; else secure from three hospitals on."""
    if kind is None:
        kind = "secure" if hospitals >= FEWEST else "plain"
    if kind == "secure":
        check_enough(hospitals, allow_two=False)
        return kind, SecureSums(seed)
    return kind, plain_sums
