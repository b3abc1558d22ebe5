"""What a million words of a blind sum cost, beside the same cipher alone, in one run."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable

import numpy as np

from tripheno.exchange import field
from tripheno.exchange.session import add
from tripheno.testing.sessions import blind_sessions

WORDS = 1_000_000
REPEATS = 5


def report() -> str:
    """Least CPU milliseconds over a few sums; the cipher tells how fast the machine is today."""
    lines = [
        "| ms CPU for 1M words | one stream alone | seal, first | seal, others | add | open |",
        "|---|---|---|---|---|---|",
    ]
    lines += [_row(hospitals) for hospitals in (3, 10)]
    return "\n".join(lines)


def _row(hospitals: int) -> str:
    sessions = blind_sessions(tuple(f"hospital-{n}" for n in range(hospitals)))
    numbers = np.random.default_rng(0).integers(-(1 << 55), 1 << 55, WORDS)
    least: dict[str, float] = defaultdict(lambda: np.inf)

    def spent(what: str, act: Callable[[], bytes]) -> bytes:
        started = time.process_time()
        made = act()
        least[what] = min(least[what], 1e3 * (time.process_time() - started))
        return made

    for step in range(REPEATS):
        spent("stream", lambda: field.uniform(bytes(32), WORDS))
        parts = []
        for n, session in enumerate(sessions.values()):
            seal = lambda: session.seal(f"fit/{step}", numbers, b"", b"")  # noqa: B023, E731
            parts.append(spent("others" if n else "first", seal))
        total = spent("add", lambda: add(parts))  # noqa: B023
        for session in sessions.values():
            spent("open", lambda: session.open(total))  # noqa: B023
    figures = (least[what] for what in ("stream", "first", "others", "add", "open"))
    return f"| K = {hospitals} | " + " | ".join(f"{ms:.1f}" for ms in figures) + " |"
