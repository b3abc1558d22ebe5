"""The first rounds of every blind federation: who is here, keys, and where to go on from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tripheno.errors import BrokenSum, ThresholdTooLow
from tripheno.exchange.announcement import Kept, strictest
from tripheno.exchange.blind import BlindSession
from tripheno.exchange.communicator import Communicator
from tripheno.exchange.messages import Contribution
from tripheno.exchange.registry import Declaration, declared, register
from tripheno.protocol.site import CELL, MOST_TIMES

ANNOUNCEMENT_BYTES = 1 << 14
SHARE_BYTES = 128  # an encrypted share for one other hospital

ANNOUNCE = register(
    Declaration(
        "announce", "gather", "none: a fresh public key, thresholds, checkpoints, a signature", (),
        lambda plan: int(plan.blind), lambda _plan, _codes: ANNOUNCEMENT_BYTES,
    )
)  # fmt: skip
SHARES = register(
    Declaration(
        "shares", "gather", "none: shares of the group's key, encrypted for each hospital", (),
        lambda plan: int(plan.blind), lambda plan, _codes: SHARE_BYTES * plan.members,
    )
)  # fmt: skip
END = register(
    Declaration(
        "end", "gather", "none: a signature under everything this hospital was told", (),
        lambda plan: int(plan.blind and plan.machines), lambda _plan, _codes: 64,
    )
)  # fmt: skip


@declared("confirm", "none: a one from everybody, to try the keys", lambda plan: int(plan.blind))
@dataclass(frozen=True)
class Confirm(Contribution):
    """The first sum: every hospital holds the same keys, or the epoch ends."""

    one: float = 1.0


@dataclass(frozen=True)
class Greeting:
    """What a hospital says of itself before a study."""

    snapshot: bytes = bytes(32)  # salted digest of its data
    thresholds: Mapping[str, int] = field(default_factory=dict)
    kept: tuple[tuple[int, bytes], ...] = ()  # checkpoints it could go on from


def sessions_of(federation: Communicator) -> dict[str, BlindSession]:
    """The members' sessions, where sums are blind."""
    return {
        name: local.session
        for name, local in federation.local_hospitals.items()
        if isinstance(local.session, BlindSession)
    }


def share_institutions(federation: Communicator) -> bool:
    """Whether some institution has more than one hospital in the study."""
    rosters = [session.roster for session in sessions_of(federation).values()]
    return bool(rosters) and rosters[0].institutions < len(rosters[0].members)


def agree_on_keys(
    federation: Communicator, greetings: Mapping[str, Greeting] | None = None
) -> Kept | None:
    """Announcements, shares, and a first sum that shows that all have the same keys.

    Gives the newest checkpoint that all hospitals announced, from which their sums go on.
    """
    sessions = sessions_of(federation)
    if not sessions:
        return None
    greetings = greetings or {name: Greeting() for name in sessions}

    def announce(name: str) -> bytes:
        said = greetings[name]
        return sessions[name].announce(said.snapshot, said.thresholds, said.kept)

    announced = federation.gather("announce", ANNOUNCE, announce)
    shares = federation.gather("shares", SHARES, lambda name: sessions[name].meet(announced))
    for session in sessions.values():
        session.take_shares(shares)
        if session.resume is not None:
            session.resume_at(*session.resume)
    ones = federation.sum("confirm", lambda _name: Confirm()).value.one
    if ones != federation.size:
        raise BrokenSum("the first sum is not a one from every hospital", where="confirm")
    return next(iter(sessions.values())).resume


def set_back(federation: Communicator) -> tuple[str, ...]:
    """The hospitals that lack the newest checkpoint which another one announced."""
    session = next(iter(sessions_of(federation).values()), None)
    said = {} if session is None else session.announced
    newest = {name: max((t for t, _ in one.kept), default=0) for name, one in said.items()}
    return tuple(name for name, t in newest.items() if t < max(newest.values()))


def strictest_cell(federation: Communicator, agreed: int) -> int:
    """How many people stand behind a code at least: as agreed, or the most that one announced.

    People are counted up to this number, so it has an upper bound: else a member could ask for
    full counts.
    """
    asked = [strictest(one.announced).get(CELL, 0) for one in sessions_of(federation).values()]
    cell = max([agreed, *asked])
    if cell > MOST_TIMES * agreed:
        raise ThresholdTooLow(
            f"a hospital announced {cell} people for a code, the study {agreed}",
            where=CELL, fix="agree on a higher one in federation.toml",
        )  # fmt: skip
    return cell


def agree_on_end(federation: Communicator) -> None:
    """Everybody signs what it was told: else the last total could differ unseen."""
    sessions = sessions_of(federation)
    signatures = federation.gather("end", END, lambda name: sessions[name].end())
    for session in sessions.values():
        session.check_end(signatures)
