"""Who takes part in a study, and the one digest that every approval signs."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

from tripheno.errors import UnknownMember
from tripheno.exchange.keys import KEY_BYTES, fingerprint_of

FEWEST = 3  # hospitals of a blind sum: of two, each sees the other's contribution

T = TypeVar("T")
SUITE = "tripheno sums 2: ed25519 x25519 sha256 aes256ctr chacha20poly1305 2^61-1 p256"


def digest_of(label: str, *parts: bytes) -> bytes:
    """SHA-256 of a label and parts, each with its length, so that no two lists look alike."""
    whole = [piece for part in (label.encode(), *parts)
             for piece in (len(part).to_bytes(8, "little"), part)]  # fmt: skip
    return hashlib.sha256(b"".join(whole)).digest()


def same_institution(name: str) -> str:
    """An institution's name as it is compared: however it is capitalised and spaced."""
    return " ".join(name.casefold().split())


@dataclass(frozen=True, order=True)
class Member:
    """A hospital of the study: its name, whose it is, and its long-term Ed25519 key (32 bytes)."""

    name: str
    institution: str
    public: bytes

    @property
    def fingerprint(self) -> str:
        """What two people read to each other."""
        return fingerprint_of(self.public)


@dataclass(frozen=True)
class Roster:
    """Everything that hospitals agreed on before a study, fixed from then on.

    ``protocol`` is the hash of the canonical protocol with the digests of its code lists,
    ``coordinator`` the coordinator's public key. Members are held in the order of their names.
    """

    members: tuple[Member, ...]
    coordinator: bytes
    protocol: bytes
    version: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "members", tuple(sorted(self.members)))
        faults = [f"two members called '{name}'" for name in _twice(self.names)]
        faults += [f"one key for two members ({key.hex()[:16]}…)" for key in _twice(self.keys)]
        for member in self.members:
            if not (member.name.isprintable() and member.name and member.institution.strip()):
                faults.append("a member without a name or an institution")
            if len(member.public) != KEY_BYTES:
                faults.append(f"the key of '{member.name[:40]}' has not {KEY_BYTES} bytes")
        if faults or not self.members:
            raise UnknownMember("; ".join(faults) or "a study without members", where="roster")

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The hospitals, in the order that decides who adds a mask and who subtracts it."""
        return tuple(member.name for member in self.members)

    @property
    def keys(self) -> tuple[bytes, ...]:
        """Long-term public keys, in the order of names."""
        return tuple(member.public for member in self.members)

    def by_name(self) -> dict[str, bytes]:
        """Long-term public keys by name."""
        return dict(zip(self.names, self.keys, strict=True))

    def key_of(self, name: str) -> bytes:
        """A member's long-term public key."""
        return self.keys[self.names.index(name)]

    @cached_property
    def institutions(self) -> int:
        """How many institutions take part: members of one count as one for K and thresholds."""
        return len({same_institution(member.institution) for member in self.members})

    def siblings_of(self, name: str) -> tuple[str, ...]:
        """The other hospitals of a hospital's institution."""
        owner = {one.name: same_institution(one.institution) for one in self.members}
        return tuple(one for one in self.names if one != name and owner[one] == owner[name])

    @cached_property
    def study(self) -> bytes:
        """What `approve` signs: suite, version, protocol, coordinator, members."""
        people = [
            digest_of("member", m.name.encode(), m.institution.encode(), m.public)
            for m in self.members
        ]
        fixed = (SUITE.encode(), self.version.encode(), self.protocol, self.coordinator)
        return digest_of("study", *fixed, *people)


def _twice(values: Iterable[T]) -> list[T]:
    return [value for value, times in Counter(values).items() if times > 1]
