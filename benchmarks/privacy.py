"""What blind sums and private alignment cost, in CPU seconds of all hospitals together."""

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
from tripheno.evaluation.comparison import share_out
from tripheno.exchange.keys import from_seed
from tripheno.exchange.session import add
from tripheno.lab.synthetic.network import synthetic_network
from tripheno.lab.synthetic.presets import ucsd_settings
from tripheno.solver.fit import fit
from tripheno.solver.settings import SolverSettings
from tripheno.study.makers import Maker
from tripheno.study.tokens import by_tokens
from tripheno.tensor import CountTensor, pooled
from tripheno.vocabulary.alignment import align_plainly
from tripheno.vocabulary.axis import Axis

RANK = 10


def report() -> str:
    """Blind against plain sums at the paper's UCSD size, K = 3; alignment of 3,229 codes."""
    warnings.simplefilter("ignore", TriphenoWarning)
    hospitals = share_out(_ucsd_tensor(), 3, None, np.random.default_rng(0))
    lines = [
        "| K = 3; fits of 15 iterations, then whole runs | plain CPU s | blind CPU s | ratio |",
        "|---|---|---|---|",
    ]
    for method in ("exact", "trip"):
        settings = SolverSettings(RANK, method, max_iter=15, tol=1e-15, starts=1)
        least: dict[str, float] = {}
        for _ in range(2):
            for kind in ("plain", "blind"):
                started = time.process_time()
                fit(hospitals, settings, Maker(kind)(tuple(hospitals)))
                spent = time.process_time() - started
                least[kind] = min(spent, least.get(kind, spent))
        plain, blind = least["plain"], least["blind"]
        lines.append(f"| {method} | {plain:.2f} | {blind:.2f} | {blind / plain:.2f}× |")
    lines += _simulate_runs()
    spent = _aligned_in([tuple(f"{n:05d}" for n in range(k, 3229, 1 + k)) for k in range(3)])
    lines += ["", _words()]
    seed = "(the seed paper: 22.6 to 59 s)"
    return "\n".join([*lines, "", f"3,229 codes aligned by tokens, K = 3: {spent:.2f} s {seed}"])


def _aligned_in(lists: list[tuple[str, ...]]) -> float:
    """CPU seconds in which hospitals with these diagnoses agree on an axis by tokens."""
    tensors = {}
    for k, codes in enumerate(lists):
        axes = (Axis("diagnosis", len(codes), codes), Axis("medication", 1, ("none",)))
        cells = np.column_stack([np.arange(len(codes)) * step for step in (0, 1, 0)])
        tensors[f"hospital-{k}"] = CountTensor.from_cells(cells, np.ones(len(codes)), axes=axes)
    federation, secret = Maker("blind")(tuple(tensors)), from_seed(0, "tokens")
    started = time.process_time()
    by_tokens(federation, tensors, b"", secret, secret)
    return time.process_time() - started


def _words(words: int = 1_000_000) -> str:
    """Milliseconds a million words, sealed at one of three hospitals, and opened there."""
    federation = Maker("blind")(("a", "b", "c"))
    sessions = [local.session for local in federation.local_hospitals.values()]
    numbers, seconds = np.arange(words, dtype="<i8"), [0.0, 0.0]
    started = time.process_time()
    total = add([session.seal("bench", numbers, b"", b"") for session in sessions])
    seconds[0] = time.process_time() - started
    for session in sessions:
        session.open(total)
    seconds[1] = time.process_time() - started - seconds[0]
    sealed, opened = (1e3 * one / len(sessions) for one in seconds)
    return f"A million words, K = 3: {sealed:.0f} ms to seal and add, {opened:.0f} ms to open"


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
                for kind in ("plain", "blind")
            }
            ratio = spent["blind"] / spent["plain"]
            lines.append(
                f"| `simulate --method {method}` | {spent['plain']:.2f} | {spent['blind']:.2f} "
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
