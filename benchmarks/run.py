"""How long users wait: ``python -m benchmarks.run [--quick] [--all] [--data DATA] [FOLDER]``.

Whole commands come first, then the objective against seconds on open data (DATA is their folder),
whole fits, ranks, what a million hidden words cost, and last the kernels at the sizes of the seed
paper; FOLDER gets the page.
``--quick`` takes commands and a tenth of the patients. ``--all`` prints too what masks, the engine,
Poisson counts and ingest cost. A busy machine is refused unless ``--busy`` is said.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from datetime import UTC, datetime
from pathlib import Path

# A second pool of threads inside the linear algebra would only be in the way of ours.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "passive")


def main(words: list[str]) -> None:
    from benchmarks import (
        answers,
        commands,
        federation,
        ingest,
        poisson,
        privacy,
        quality,
        ranks,
        sums,
    )
    from tripheno.lab.benchmark import QUICK, BenchmarkPlan, measured
    from tripheno.lab.benchmark_table import write

    for number in (signal.SIGINT, signal.SIGTERM):  # nothing that was started stays behind
        signal.signal(number, federation.stop_once)

    def say(text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    asked = argparse.ArgumentParser(description=__doc__)
    for name in ("--quick", "--all", "--busy"):
        asked.add_argument(name, action="store_true")
    asked.add_argument("--data", type=Path)
    asked.add_argument("folder", type=Path, nargs="?", default=Path("docs"))
    given = asked.parse_args(words)
    tables = [commands.report(words)]
    if not given.quick:
        tables += [] if given.data is None else [quality.report(given.data)]
        tables += [answers.report(), ranks.report()]
    tables.append(sums.report())
    front = f"# Time to answer\n\n{datetime.now(UTC):%Y-%m-%d}, `python -m benchmarks.run`.\n\n"
    front += "".join(f"{table}\n\n" for table in tables)
    page, folder = "", given.folder
    for found in measured(QUICK if given.quick else BenchmarkPlan(), say):
        page = write(found, folder, front)
    print(page)
    if given.all:
        print("\n" + privacy.report())
        print("\n" + poisson.report())
        print("\n" + federation.report(folder, say=say))
        print("\n" + ingest.report(ingest.EVENTS, ingest.measure(ingest.EVENTS)))


if __name__ == "__main__":
    main(sys.argv[1:])
