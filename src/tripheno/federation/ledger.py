"""What a hospital remembers of all its studies, apart from every audit log: it only grows.

How often a study was run with its data, and with whom. Two studies on the same data whose members
differ by one institution, or by one of its hospitals, give two sums whose difference is theirs: the
second one is refused, unless the approvals of both say that it may be.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tripheno.errors import NotApproved, RunFailed
from tripheno.study.store import write_whole

LEDGER = "ledger.json"


@dataclass
class Entry:
    """One study on one snapshot of the data."""

    study: str  # the protocol's hash
    snapshot: str  # hash of the events
    members: dict[str, str]  # fingerprint of a hospital's key → whose it is
    other_rosters: bool  # its approval allows another roster on the same data
    runs: list[str] = field(default_factory=list)


class RunLedger:
    """``ledger.json`` in a hospital's state folder."""

    def __init__(self, state: Path) -> None:
        self.path = state / LEDGER
        try:
            saved = json.loads(self.path.read_bytes()) if self.path.is_file() else []
            self.entries = [Entry(**_with_members(one)) for one in saved]
        except (ValueError, TypeError, AttributeError):
            raise RunFailed("the ledger of studies cannot be read", where=LEDGER) from None

    def knows(self, run: str) -> bool:
        """Whether this run began before, with whatever study."""
        return any(run in entry.runs for entry in self.entries)

    def enter(self, now: Entry, run: str, most_runs: int) -> None:
        """Write down that a run begins, or refuse it; on disk before anything leaves."""
        for before in self.entries:
            both = before.other_rosters and now.other_rosters
            if before.snapshot == now.snapshot and one_apart(before, now) and not both:
                raise NotApproved(
                    "the same data took part in a study whose members differ by one institution",
                    why="the difference of the two results' sums would be that institution's",
                    fix="approve both studies with --other-rosters, if that is meant",
                )
        same = [
            one for one in self.entries if (one.study, one.snapshot) == (now.study, now.snapshot)
        ]
        entry = same[0] if same else now
        if run not in entry.runs:
            if len(entry.runs) >= most_runs:
                raise NotApproved(f"the {most_runs} run(s) of this study are spent")
            entry.runs.append(run)
        entry.other_rosters = now.other_rosters
        if not same:
            self.entries.append(now)
        write_whole(self.path, json.dumps([asdict(one) for one in self.entries]).encode())


def _with_members(saved: dict[str, Any]) -> dict[str, Any]:
    """An entry as it is kept today; before 2026-11-19 institutions alone were."""
    names = saved.pop("institutions", [])
    return {"members": {name: name for name in names}, **saved}


def one_apart(a: Entry, b: Entry) -> bool:
    """Whether hospitals of one institution came, left, or were replaced by those of another.

    Institutions are compared too, for a hospital may have another key than in the first study.
    """
    gone, come = (
        {one.members[key] for key in one.members.keys() - other.members.keys()}
        for one, other in ((a, b), (b, a))
    )
    first, second = set(a.members.values()), set(b.members.values())
    return 1 in {
        max(len(gone), len(come)), max(len(first - second), len(second - first)),
    }  # fmt: skip
