"""A few hospitals' sessions, as far as their first sum."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from tripheno.exchange.announcement import Kept
from tripheno.exchange.blind import BlindSession
from tripheno.exchange.keys import Identity, from_seed
from tripheno.exchange.roster import Member, Roster
from tripheno.exchange.session import PlainSession, Session, add

NAMES = ("harbour", "lakeside", "northfield")
SNAPSHOT = bytes(32)
THRESHOLDS = {"min_cell_count": 11, "min_site_patients": 100, "min_hospitals": 1}


def identity_of(name: str) -> Identity:
    """A hospital's long-term key, the same in every test."""
    return Identity.from_bytes(from_seed(0, name)("ed25519"))


def roster_of(names: tuple[str, ...] = NAMES) -> Roster:
    """A roster of hospitals, each an institution of its own."""
    members = tuple(Member(name, f"{name} trust", identity_of(name).public) for name in names)
    return Roster(members, b"c" * 32, b"p" * 32, "0")


def blind_session(name: str, roster: Roster, epoch: int = 1, seed: int = 0) -> BlindSession:
    """A session whose keys follow a seed."""
    return BlindSession(name, identity_of(name), roster, "run", epoch, from_seed(seed, name))


def meet(
    sessions: Mapping[str, BlindSession], kept: Mapping[str, tuple[Kept, ...]] | None = None
) -> None:
    """The two rounds of keys."""
    kept = kept or {}
    said = {n: s.announce(SNAPSHOT, THRESHOLDS, kept.get(n, ())) for n, s in sessions.items()}
    shares = {name: session.meet(said) for name, session in sessions.items()}
    for session in sessions.values():
        session.take_shares(shares)


def blind_sessions(names: tuple[str, ...] = NAMES, epoch: int = 1) -> dict[str, BlindSession]:
    """Sessions that share their keys and have confirmed them."""
    roster = roster_of(names)
    sessions = {name: blind_session(name, roster, epoch) for name in names}
    meet(sessions)
    total = add([session.confirm() for session in sessions.values()])
    for session in sessions.values():
        session.check_confirm(total)
    return sessions


def plain_sessions(names: tuple[str, ...] = NAMES) -> dict[str, PlainSession]:
    """Sessions that hide nothing."""
    return {name: PlainSession(name, roster_of(names).study, "run", 1) for name in names}


def summed(
    sessions: Mapping[str, Session], step: str, numbers: Callable[[str], np.ndarray]
) -> dict[str, np.ndarray]:
    """One sum, as each hospital opens it."""
    total = add([s.seal(step, numbers(name), b"", b"") for name, s in sessions.items()])
    return {name: session.open(total) for name, session in sessions.items()}
