"""What masks and private alignment cost, in CPU seconds of all hospitals and the server."""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tripheno.errors import TriphenoWarning
from tripheno.evaluation.simulation import share_out
from tripheno.exchange import plain_sums
from tripheno.exchange.simulated import SecureSums
from tripheno.records.synthetic import synthetic_network
from tripheno.records.synthetic_presets import ucsd_settings
from tripheno.solver.fit import fit
from tripheno.solver.settings import SolverSettings
from tripheno.tensor import CountTensor, pooled
from tripheno.vocabulary.aligners import TokenAligner
from tripheno.vocabulary.alignment import align_plainly

RANK = 10


def report() -> str:
    """Secure against plain sums at the paper's UCSD size, K = 3; alignment of 3,229 codes."""
    warnings.simplefilter("ignore", TriphenoWarning)
    hospitals = share_out(_ucsd_tensor(), 3, None, np.random.default_rng(0))
    lines = [
        "| K = 3; fits of 15 iterations, then whole runs | plain CPU s | secure CPU s | ratio |",
        "|---|---|---|---|",
    ]
    for method in ("exact", "trip"):
        settings = SolverSettings(RANK, method, max_iter=15, tol=1e-15)
        least: dict[str, float] = {}
        for _ in range(2):
            for kind, make in (("plain", plain_sums), ("secure", SecureSums(0))):
                started = time.process_time()
                fit(hospitals, settings, sums=make)
                spent = time.process_time() - started
                least[kind] = min(spent, least.get(kind, spent))
        plain, secure = least["plain"], least["secure"]
        lines.append(f"| {method} | {plain:.2f} | {secure:.2f} | {secure / plain:.2f}× |")
    lines += _simulate_runs()
    started = time.process_time()
    lists = ({f"{n:05d}": 1 for n in range(k, 3229, 1 + k)} for k in range(3))
    TokenAligner(0).align({f"hospital-{k}": {"diagnosis": own} for k, own in enumerate(lists)})
    spent = time.process_time() - started
    seed = "(the seed paper: 22.6 to 59 s)"
    return "\n".join([*lines, "", f"3,229 codes aligned by tokens, K = 3: {spent:.2f} s {seed}"])


def _simulate_runs() -> list[str]:
    """The same for `tripheno simulate` as a user runs it, from files to the report."""
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        cells = Path(folder) / "cells.parquet"
        tensor = _ucsd_tensor()
        indices, values = tensor.coordinates()
        names = ["patient", *tensor.modes, "value"]
        columns = [*indices.T, values]
        pq.write_table(pa.table(dict(zip(names, columns, strict=True))), cells)
        for method in ("exact", "trip"):
            spent = {
                kind: min(_simulate(cells, Path(folder), method, kind, n) for n in range(2))
                for kind in ("plain", "secure")
            }
            ratio = spent["secure"] / spent["plain"]
            lines.append(
                f"| `simulate --method {method}` | {spent['plain']:.2f} | {spent['secure']:.2f} "
                f"| {ratio:.2f}× |"
            )
    return lines


def _simulate(cells: Path, folder: Path, method: str, kind: str, number: int) -> float:
    """CPU seconds of one whole run in a process of its own."""
    out = folder / f"{method}-{kind}-{number}"
    words = ["simulate", str(cells), "--hospitals", "3", "--rank", str(RANK), "--method", method]
    words += ["--sums", kind, "--out", str(out)]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-m", "tripheno", *words], check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _ucsd_tensor() -> CountTensor:
    network = synthetic_network(ucsd_settings())
    tensors = [CountTensor.from_events(hospital.events) for hospital in network.hospitals]
    axes = align_plainly([tensor.axes for tensor in tensors])
    return pooled([tensor.on_axes(axes) for tensor in tensors])
