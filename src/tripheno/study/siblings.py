"""What hospitals of one institution see together: they count as one, for small cells too.

Each tells the others of its institution how many people it has behind each code, counted as in the
sum before and encrypted for them alone. So each can object to a few people of those outside.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tripheno.errors import BadMessage
from tripheno.exchange.communicator import Communicator, bundle
from tripheno.exchange.registry import Declaration, MessagePlan, register
from tripheno.study.keys import sessions_of

PEOPLE = np.dtype("<u4")
SEAL = 16  # bytes of an encrypted message beside its content

Counts = Mapping[str, Sequence[np.ndarray]]
"""Hospital → people behind each code, by mode."""


def _most_bytes(plan: MessagePlan, most: Mapping[str, int]) -> int:
    return plan.members * (PEOPLE.itemsize * sum(most.values()) + SEAL)


SIBLINGS = register(
    Declaration(
        "institution", "gather",
        "codes of every mode: people as counted before, encrypted for its institution's hospitals",
        (), lambda plan: plan.counts * int(plan.siblings), _most_bytes,
    )
)  # fmt: skip


def of_institutions(
    federation: Communicator, own: Counts, step: str
) -> dict[str, list[np.ndarray]]:
    """For each hospital here the people of its whole institution."""
    sessions, found = sessions_of(federation), {name: list(counts) for name, counts in own.items()}
    roster = next(iter(sessions.values())).roster

    def give(name: str) -> bytes:
        flat = np.concatenate(own[name]).astype(PEOPLE).tobytes()
        return b"".join(
            sessions[name].encrypt_to(peer, step, flat) for peer in roster.siblings_of(name)
        )

    answers = federation.gather(step, SIBLINGS, give)
    for name, session in sessions.items():
        session.hear(step, bundle(answers))
        ends = np.cumsum([len(counts) for counts in own[name]])
        size = PEOPLE.itemsize * int(ends[-1]) + SEAL
        for peer in roster.siblings_of(name):
            at = roster.siblings_of(peer).index(name) * size
            data = session.decrypt_from(peer, step, answers[peer][at : at + size])
            if len(data) != size - SEAL:
                raise BadMessage("people behind other codes", where=peer)
            theirs = np.split(np.frombuffer(data, PEOPLE).astype(np.int64), ends[:-1])
            found[name] = [a + b for a, b in zip(found[name], theirs, strict=True)]
    return found
