"""What blind sums cost: a million words, and a whole fit beside the first version's masks.

``python -m benchmarks.sums BEFORE`` with a checkout of the first version (commit a123ba9).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import warnings
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import numpy as np

from kit.sessions import blind_sessions
from tripheno.evaluation.comparison import share_out
from tripheno.exchange import field
from tripheno.exchange.session import add
from tripheno.solver.fit import fit
from tripheno.solver.settings import SolverSettings
from tripheno.study.makers import Maker

WORDS = 1_000_000
REPEATS = 5
TURNS = 3  # of either version, one after the other
FITS = 4  # in each turn, of either kind of sum
ITERATIONS = 15

# What the first version is asked, in its own words.
FIRST_VERSION = f"""
import json, time, warnings
warnings.simplefilter("ignore")
import numpy as np
from benchmarks.privacy import RANK, SecureSums, SolverSettings, _ucsd_tensor, fit, plain_sums, share_out
hospitals = share_out(_ucsd_tensor(), 3, None, np.random.default_rng(0))
settings = SolverSettings(RANK, "exact", max_iter={ITERATIONS}, tol=1e-15)
least = dict()
for _ in range({FITS}):
    for kind, make in (("plain", plain_sums), ("hidden", SecureSums(0))):
        started = time.process_time()
        fit(hospitals, settings, sums=make)
        spent = time.process_time() - started
        least[kind] = min(spent, least.get(kind, spent))
print(json.dumps(least))
"""  # noqa: E501


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


# ── a bare fit, beside the first version's ────────────────────────────────────────────────────


def fit_costs() -> dict[str, float]:
    """Least CPU seconds of `exact` at the paper's UCSD size, K = 3, and rounds of an iteration."""
    from benchmarks.privacy import RANK, _ucsd_tensor

    hospitals = share_out(_ucsd_tensor(), 3, None, np.random.default_rng(0))
    settings = SolverSettings(
        RANK, "exact", max_iter=ITERATIONS, tol=1e-15, starts=1, influence="none"
    )
    least: dict[str, float] = {}
    for _ in range(FITS):
        for kind, named in (("plain", "plain"), ("hidden", "blind")):
            federation = Maker(named)(tuple(hospitals))
            before = next(iter(federation.traffic.values())).rounds
            started = time.process_time()
            fit(hospitals, settings, federation)
            spent = time.process_time() - started
            least[kind] = min(spent, least.get(kind, spent))
            least["rounds"] = next(iter(federation.traffic.values())).rounds - before
    return least


def compared(before: Path) -> str:
    """Both versions in turns, each in processes of its own; the least of either."""
    least: dict[str, dict[str, float]] = {"before": {}, "now": {}}
    for _ in range(TURNS):
        for version, words, root in (
            ("before", ["-c", FIRST_VERSION], before),
            ("now", ["-m", "benchmarks.sums", "--fit"], Path.cwd()),
        ):
            paths = f"{root / 'src'}{os.pathsep}{root}"
            done = subprocess.run(
                [sys.executable, *words], cwd=root, check=True, stdout=subprocess.PIPE,
                env={**os.environ, "PYTHONPATH": paths, "OPENBLAS_NUM_THREADS": "1"},
            )  # fmt: skip
            found = json.loads(done.stdout)
            least[version] = {k: min(v, least[version].get(k, v)) for k, v in found.items()}
    old, new = least["before"], least["now"]
    lines = [
        f"| bare `exact`, {ITERATIONS} iterations, K = 3 | plain CPU s | hidden CPU s | ratio |",
        "|---|---:|---:|---:|",
    ]
    for name, one in (("first version's masks", old), ("blind sums", new)):
        ratio = one["hidden"] / one["plain"]
        lines.append(f"| {name} | {one['plain']:.3f} | {one['hidden']:.3f} | {ratio:.2f} |")
    ratio = new["hidden"] / old["hidden"]
    return "\n".join([
        *lines, "", f"Blind sums against the first version's masks, whole fit: {ratio:.2f}; "
        f"{new['rounds']:.0f} rounds.",
    ])  # fmt: skip


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    if sys.argv[1:] == ["--fit"]:
        print(json.dumps(fit_costs()))
    else:
        print(report(), compared(Path(sys.argv[1]).resolve()), sep="\n\n")
