"""From events to a tensor, beside the same join in DuckDB: seconds, and memory above the events.

Each is measured in a process of its own, because memory once taken is not given back:
``python -m tripheno.lab.benchmark_building EVENTS.parquet tripheno|DuckDB REPEATS``.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tripheno.lab.benchmark_peers import duckdb_join
from tripheno.records.events import CountingRule
from tripheno.tensor.count_tensor import CountTensor

MODES = ("medication", "lab")


def building(
    events: pa.Table, repeats: int, say: Callable[[str], None]
) -> dict[str, dict[str, float]]:
    """Least seconds and CPU seconds, and peak megabytes, of both."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "events.parquet"
        pq.write_table(events, path)
        for who in ("tripheno", "DuckDB"):
            say(f"building by {who}")
            words = [sys.executable, "-m", __spec__.name, str(path), who, str(min(repeats, 3))]
            done = subprocess.run(words, capture_output=True, text=True, check=False)  # noqa: S603
            if done.returncode == 0:
                found[who] = json.loads(done.stdout)
    return found


def measure(path: Path, who: str, repeats: int) -> dict[str, float]:
    """One of the two, in this process."""
    events = pq.read_table(path)
    few = events.slice(0, min(1000, events.num_rows))
    rule = CountingRule(MODES, "visit")
    works: dict[str, Callable[[pa.Table], Any]] = {
        "tripheno": lambda table: CountTensor.from_events(table, rule=rule),
        "DuckDB": lambda table: (duckdb_join(table, MODES) or _missing)(),
    }
    work = works[who]
    work(few)  # compiled code and libraries are loaded before the clock runs
    before = _peak_from_here()
    wall = cpu = float("inf")
    for _ in range(repeats):
        begun, spent = time.perf_counter(), time.process_time()
        work(events)
        wall = min(wall, time.perf_counter() - begun)
        cpu = min(cpu, time.process_time() - spent)
    return {"wall": wall, "cpu": cpu, "megabytes": _peak_megabytes() - before}


def _peak_from_here() -> float:
    """Forget the peak so far where the system allows it, and say where it stands."""
    forget = Path("/proc/self/clear_refs")
    if forget.exists():
        forget.write_text("5", "ascii")
    return _peak_megabytes()


def _peak_megabytes() -> float:
    status = Path("/proc/self/status")
    if status.exists():
        line = next(x for x in status.read_text("ascii").splitlines() if x.startswith("VmHWM"))
        return float(line.split()[1]) / 1024
    import resource  # noqa: PLC0415  Windows has none, and no `bench`

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _missing() -> None:
    raise SystemExit("DuckDB is not installed")


if __name__ == "__main__":
    sys.stdout.write(json.dumps(measure(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))))
