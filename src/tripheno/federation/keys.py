"""Whose keys a run has: the members' own, fresh for every attempt; or the seed's in a rehearsal."""

from __future__ import annotations

from typing import Any

from tripheno.errors import BadMessage, UnknownMember
from tripheno.exchange.keys import (
    Entropy,
    Identity,
    KeyDesk,
    Roster,
    fingerprint_of,
    from_seed,
    from_system,
)
from tripheno.exchange.secure import HospitalSums, ServerSums
from tripheno.exchange.simulated import seeded_halves
from tripheno.federation.messages import Hello
from tripheno.protocol.agreed import Protocol


def hospital_keys(
    protocol: Protocol, hello: Hello, name: str, identity: Identity, shown: dict[str, Any]
) -> HospitalSums:
    """A hospital's half of the sums of one attempt.

    ``shown`` are the members' public keys as the coordinator passed them on; they must be the ones
    whose fingerprints were agreed on.
    """
    roster = roster_of(protocol, hello, shown)
    if protocol.test:
        halves, _ = seeded_halves(protocol.solver.seed, _rehearsed(protocol), protocol.names)
        return halves[name]
    return HospitalSums(KeyDesk(name, identity, roster, from_system))


def server_keys(protocol: Protocol, hello: Hello, shown: dict[str, Any]) -> ServerSums:
    """The coordinator's half."""
    roster = roster_of(protocol, hello, shown)
    if protocol.test:
        _, server = seeded_halves(protocol.solver.seed, _rehearsed(protocol), protocol.names)
        return server
    return ServerSums(roster)


def roster_of(protocol: Protocol, hello: Hello, shown: dict[str, Any]) -> Roster:
    """The members of one attempt: a new attempt is a new run to the masks."""
    try:
        publics = {str(name): bytes.fromhex(public) for name, public in shown.items()}
    except (ValueError, TypeError):
        raise BadMessage("public keys that cannot be read", where="roster") from None
    return protocol.roster(f"{hello.run}/{hello.attempt}", publics)


def coordinator_key(protocol: Protocol, hello: Hello) -> bytes:
    """The key that countersigns audit heads, if it is the one agreed on."""
    try:
        public = bytes.fromhex(hello.coordinator)
    except ValueError:
        raise BadMessage("the coordinator's key cannot be read", where="hello") from None
    if protocol.coordinator and fingerprint_of(public) != protocol.coordinator:
        raise UnknownMember("shows another key than agreed on", where="the coordinator")
    return public


def alignment_entropy(protocol: Protocol, name: str) -> Entropy:
    """Where a member's part of the axes' order comes from."""
    if protocol.test:
        return from_seed(protocol.solver.seed, f"alignment/{name}")
    return from_system


def _rehearsed(protocol: Protocol) -> str:
    """The first run of a simulation with the same seed: so that both agree on the same axes."""
    return f"{protocol.solver.seed}/1"
