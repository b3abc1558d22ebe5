"""A large hospital on one machine: seconds of CPU and memory against the number of events.

``python -m benchmarks.large 1 10 100`` (millions of events). Each size is generated into a
temporary folder and fitted in a process of its own, `Phenotyper` on the hospital's folder; ratios
are against the smallest size that is counted in parts.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

EVENTS_EACH = 100  # of a patient, in five visits
MEDICATIONS, DIAGNOSES, GROUPS, VISITS = 3_229, 304, 10, 5
BATCH = 10_000  # patients


def batches(patients: int, seed: int = 0) -> Iterator[pa.RecordBatch]:
    """Patients of ten groups, each with medications and diagnoses of its own, sorted."""
    from tripheno.records.events import EVENT_SCHEMA

    rng = np.random.default_rng(seed)
    names = [f"m{k:04}" for k in range(MEDICATIONS)] + [f"d{k:03}" for k in range(DIAGNOSES)]
    codes, modes = pa.array(names), pa.array(["medication", "diagnosis"])
    for first in range(0, patients, BATCH):
        count = min(BATCH, patients - first)
        patient = np.repeat(np.arange(first, first + count), EVENTS_EACH)
        group = np.repeat(rng.integers(0, GROUPS, count), EVENTS_EACH)
        is_diagnosis = rng.random(len(patient)) < 0.4
        size = np.where(is_diagnosis, DIAGNOSES, MEDICATIONS)
        own = rng.random(len(patient)) < 0.7
        place = (rng.random(len(patient)) ** 3 * size / np.where(own, GROUPS, 1)).astype(np.int64)
        place = np.where(own, place + group * (size // GROUPS), place) % size
        visit = np.tile(np.repeat(np.arange(VISITS), EVENTS_EACH // VISITS), count)
        number = pa.array(np.where(is_diagnosis, MEDICATIONS, 0) + place, pa.int32())
        mode = pa.array(is_diagnosis.astype(np.int32))
        columns = [
            pa.array(patient), pa.array(patient * VISITS + visit),
            pa.nulls(len(patient), pa.timestamp("us")),
            pa.DictionaryArray.from_arrays(mode, modes),
            pa.DictionaryArray.from_arrays(number, codes),
            pa.nulls(len(patient), EVENT_SCHEMA.field("label").type),
        ]  # fmt: skip
        yield pa.record_batch(columns, schema=EVENT_SCHEMA)


def measured(site: Path, iterations: int, starts: int) -> dict[str, float]:
    """Count and fit the hospital in this process."""
    from tripheno import Phenotyper
    from tripheno.tensor.reading import read_tensor

    begun = time.perf_counter()
    tensor = read_tensor(site)
    counted = time.process_time()
    model = Phenotyper(10, resamples=0, starts=starts, max_iter=iterations, tol=1e-300)
    model.fit([tensor])
    return {
        "patients": tensor.patients,
        "cells": tensor.nonzeros,
        "count_cpu": counted,
        "cpu": time.process_time(),
        "seconds": time.perf_counter() - begun,
        "max_rss_gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
        "iterations": model.n_iter_,
    }


def main(millions: list[float], iterations: int = 5, starts: int = 1) -> None:
    """One line a size."""
    from tripheno.records.events import CountingRule, stream_events
    from tripheno.tensor.large import LARGE

    first: float | None = None
    for million in millions:
        events = int(million * 1e6)
        with tempfile.TemporaryDirectory() as folder:
            site = Path(folder)
            (site / "local").mkdir()
            stream_events(
                batches(events // EVENTS_EACH), site / "events.parquet", CountingRule(),
                synthetic=True,
            )  # fmt: skip
            command = [sys.executable, "-m", "benchmarks.large", "--site", folder]
            done = subprocess.run(
                [*command, str(iterations), str(starts)], check=True, capture_output=True
            )
        found = json.loads(done.stdout)
        each = found["cpu"] / events * 1e6
        if events > LARGE and first is None:
            first = each
        print(
            f"{events:>13,} events  {found['patients']:>9,} patients  {found['cells']:>13,} cells  "
            f"count {found['count_cpu']:7.1f} CPU s  all {found['cpu']:7.1f} CPU s  "
            f"{found['seconds']:6.1f} s  {found['max_rss_gb']:5.2f} GB  {each:.3f} µs an event  "
            f"{each / first if first else float('nan'):.2f}×",
            flush=True,
        )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--site"]:
        print(json.dumps(measured(Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))))
    else:
        main([float(word) for word in sys.argv[1:]] or [1, 10])
