"""Common axes from a public code list: hospitals count, nobody shows a list.

The protocol names a code list (ICD, RxNorm, OMOP concepts). For each code the hospitals securely
sum min(people, threshold) over slots in an order that a key only they hold decides; slots whose
total reaches the threshold are kept. Capping loses nothing for that test. The server learns how
many slots there are and their capped totals, not which code a slot is.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tripheno.errors import BadShape
from tripheno.exchange import Broadcast, Contribution, Exchange
from tripheno.exchange.sums import Handler, handler


@dataclass(frozen=True)
class CountPeople(Broadcast):
    """How many people have each code, counted no further than ``cap``."""

    cap: int


@dataclass(frozen=True)
class PeoplePerSlot(Contribution):
    """min(people, cap) in every slot of every mode."""

    people: tuple[np.ndarray, ...]


def slots(key: bytes, mode: str, codes: Sequence[str]) -> np.ndarray:
    """Where each code of the list stands: ranked by HMAC under the hospitals' key."""
    ranked = sorted(
        range(len(codes)),
        key=lambda n: hmac.digest(key, f"slot|{mode}|{codes[n]}".encode(), "sha256"),
    )
    place = np.empty(len(codes), dtype=np.int64)
    place[ranked] = np.arange(len(codes))
    return place


def people_in_slots(
    people: Mapping[str, int], codes: Sequence[str], place: np.ndarray
) -> np.ndarray:
    """One hospital's count of people per slot; a code that is not on the list is an error."""
    known = {code: int(slot) for code, slot in zip(codes, place, strict=True)}
    unknown = sum(code not in known for code in people)
    if unknown:
        raise BadShape(
            f"{unknown:,} of this hospital's codes are not on the public list",
            fix="roll them up to it, or align with tokens",
        )
    counted = np.zeros(len(codes))
    for code, count in people.items():
        counted[known[code]] = count
    return counted


def counting(people: Sequence[np.ndarray]) -> Handler:
    """A hospital's handler for :class:`CountPeople`."""

    def answer(asked: CountPeople) -> PeoplePerSlot:
        return PeoplePerSlot(tuple(np.minimum(slot, float(asked.cap)) for slot in people))

    return handler(CountPeople, answer)


def kept_slots(
    exchange: Exchange, sizes: Sequence[int], threshold: int, step: str = "people/1"
) -> list[np.ndarray]:
    """For every mode, which slots have at least ``threshold`` people in the whole network."""
    cap = max(threshold, 1)
    like = PeoplePerSlot(tuple(np.zeros(size) for size in sizes))
    total = exchange.sum(step, CountPeople(cap), like)
    return [np.rint(people) >= cap for people in total.people]
