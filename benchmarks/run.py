"""Every figure, at the sizes of the seed paper: ``python -m benchmarks.run [--quick] [FOLDER]``.

Whole commands come first: they are what users wait for. ``--busy`` measures on a busy machine too.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

# A second pool of threads inside the linear algebra would only be in the way of ours.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "passive")


def main(words: list[str]) -> None:
    from benchmarks import commands, federation, ingest, poisson, privacy, sums
    from tripheno.lab.benchmark import QUICK, BenchmarkPlan, measured
    from tripheno.lab.benchmark_table import write

    for number in (signal.SIGINT, signal.SIGTERM):  # nothing that was started stays behind
        signal.signal(number, federation.stop_once)

    def say(text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    folder = Path(next((word for word in words if not word.startswith("-")), "docs"))
    plan = QUICK if "--quick" in words else BenchmarkPlan()
    print(commands.report(words) + "\n", flush=True)
    page = ""
    for found in measured(plan, say):
        page = write(found, folder)
    print(page)
    if "--quick" not in words:
        print("\n" + privacy.report())
        print("\n" + sums.report())
        print("\n" + poisson.report())
        print("\n" + federation.report(folder, say=say))
        print("\n" + ingest.report(ingest.EVENTS, ingest.measure(ingest.EVENTS)))


if __name__ == "__main__":
    main(sys.argv[1:])
