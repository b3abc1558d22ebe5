"""Federations inside one process: the program runs once, for all hospitals that live there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from typing import Literal

from tripheno import __version__
from tripheno.errors import TooFewHospitals
from tripheno.exchange.blind import BlindSession
from tripheno.exchange.communicator import (
    Communicator,
    Gatekeeper,
    InProcess,
    Listener,
    LocalHospital,
    OpenGatekeeper,
)
from tripheno.exchange.keys import Identity, from_seed
from tripheno.exchange.roster import FEWEST, Member, Roster
from tripheno.exchange.words import noise_from
from tripheno.study.keys import agree_on_keys

SumsKind = Literal["blind", "plain"]
Gatekeepers = Callable[[str], Gatekeeper]


def open_gatekeepers(_name: str) -> Gatekeeper:
    """No gate anywhere."""
    return OpenGatekeeper()


class Maker:
    """Makes federations of the same hospitals, one after the other, each under keys of its own.

    Keys come from a seed, so that runs can be compared: anybody with the seed can open them.
    """

    def __init__(self, kind: SumsKind | None = None, seed: int = 0) -> None:
        self.kind, self.seed = kind, seed
        self._runs = count(1)

    def of(self, hospitals: Sequence[str]) -> SumsKind:
        """How these hospitals add up: as asked; else blindly from three on."""
        if self.kind == "blind":
            check_enough(len(hospitals), allow_two=False)
        return self.kind or ("blind" if len(hospitals) >= FEWEST else "plain")

    def __call__(
        self,
        hospitals: Sequence[str],
        gatekeepers: Gatekeepers = open_gatekeepers,
        listen: Listener | None = None,
    ) -> Communicator:
        """A new federation of these hospitals, its keys agreed on."""
        names = tuple(hospitals)
        if self.of(names) == "plain":
            local_hospitals = {name: LocalHospital(None, gatekeepers(name)) for name in names}
            return Communicator(names, local_hospitals, InProcess(listen))
        run = f"{self.seed}/{next(self._runs)}"
        identities = {name: seeded_identity(self.seed, run, name) for name in names}
        members = tuple(Member(name, name, one.public) for name, one in identities.items())
        roster = Roster(members, bytes(32), bytes(32), __version__)
        local_hospitals = {}
        for name, identity in identities.items():
            entropy = from_seed(self.seed, f"{run}/{name}")
            session = BlindSession(name, identity, roster, run, 1, entropy)
            local_hospitals[name] = LocalHospital(
                session, gatekeepers(name), noise_from(entropy, "noise")
            )
        federation = Communicator(roster.names, local_hospitals, InProcess(listen))
        agree_on_keys(federation)
        return federation


def seeded_identity(seed: int, run: str, name: str) -> Identity:
    """A hospital's long-term key in a simulation."""
    return Identity.from_bytes(from_seed(seed, f"{run}/{name}")("ed25519"))


def check_enough(hospitals: int, *, allow_two: bool) -> None:
    """Three hospitals at least: of two, each sees the other's contribution."""
    if hospitals < FEWEST and not allow_two:
        raise TooFewHospitals(
            f"blind sums of {hospitals} hospital(s)",
            why="with two, each sees the other's contribution: the sum less its own",
            fix="find a third, or accept that with allow_two",
        )
