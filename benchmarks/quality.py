"""Objective against seconds: ``python -m benchmarks.quality DATA [NAME ...]``.

DATA is the folder of the open EHR data, a NAME one of `benchmarks.evidence`. This version and the
one before this work (`benchmarks.commands`) find rank 10 in the pooled patients from as many
starts, influence not bounded, so that both minimise the same Ψ; seconds are of CPU. Told is when
the best Ψ so far came within 0.1 % of the best that any run of either ended with. Beside them is
pyttb's ``cp_als`` without a constraint, an easier problem: its row is of its own best.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

RANK, STARTS, SEEDS = 10, 16, 3
NEAR = 1e-3
NAMES = ("mimic-dx", "eicu")
Curve = list[tuple[float, float]]  # CPU seconds, best Ψ so far


def curve_of(cells: Path, seed: int, starts: int = STARTS) -> Curve:
    """One whole fit in this process; runs under today's version and the one it is compared with."""
    from tripheno.solver.fit import fit
    from tripheno.solver.settings import SolverSettings
    from tripheno.tensor.count_tensor import CountTensor

    kept = np.load(cells)
    tensor = CountTensor.from_cells(kept["indices"], kept["counts"], shape=tuple(kept["shape"]))
    known = {field.name for field in fields(SolverSettings)}
    new = {"starts": starts, "influence": "none"}
    words: Any = new if "starts" in known else {"restarts": starts}
    # the version before takes the seeds that follow one another
    settings = SolverSettings(RANK, method="central", seed=seed * starts, **words)
    found: Curve = []

    def watch(line: Any) -> None:
        best = min(line.objective, found[-1][1] if found else np.inf)
        found.append((time.process_time() - begun, best))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit({"all": tensor}, settings)  # what is compiled or loaded belongs to no fit
        begun = time.process_time()
        last = fit({"all": tensor}, settings, watch=watch)
    return [*found, (time.process_time() - begun, min(found[-1][1], last.objective))]


def peer_curve(cells: Path, seed: int, starts: int = STARTS) -> Curve:
    """Pyttb from as many starts, ten iterations at a time."""
    import pyttb

    kept = np.load(cells)
    counts = kept["counts"].astype(float)
    data = pyttb.sptensor(kept["indices"], counts[:, None], tuple(int(n) for n in kept["shape"]))
    norm, found, best = float(counts @ counts), [], np.inf
    begun = time.process_time()
    for start in range(starts):
        rng = np.random.default_rng([seed, start])
        model: Any = pyttb.ktensor([rng.random((int(n), RANK)) for n in kept["shape"]])
        for _ in range(10):
            model, _, report = pyttb.cp_als(data, RANK, maxiters=10, init=model, printitn=0)
            best = min(best, norm * (1.0 - report["fit"]) ** 2)
            found.append((time.process_time() - begun, best))
    return found


def seconds_to(curve: Curve, level: float) -> float:
    """When the best so far came down to a level; never is infinite."""
    return next((seconds for seconds, best in curve if best <= level), np.inf)


def measured(cells: Path, pythons: dict[str, str], seeds: int) -> dict[str, list[Curve]]:
    """Curves of every version and of the peer, taken in turn."""
    found: dict[str, list[Curve]] = {}
    for seed in range(seeds):
        for version, python in {**pythons, "pyttb, no constraint": sys.executable}.items():
            kind = "--peer" if version.startswith("pyttb") else "--one"
            words = [python, "-P", str(Path(__file__)), kind, str(cells), str(seed)]
            done = subprocess.run(words, check=True, capture_output=True, text=True)
            found.setdefault(version, []).append(json.loads(done.stdout))
    return found


def report(root: Path, names: Sequence[str] = NAMES, seeds: int = SEEDS) -> str:
    """Seconds to within 0.1 % and to the end, and the curves of the first seed."""
    from benchmarks.commands import BEFORE, installed_beside

    with tempfile.TemporaryDirectory() as folder:
        before = installed_beside(Path(folder))
        pythons = {"this": sys.executable} | ({BEFORE: before} if before else {})
        return _table(root, names, pythons, seeds)


def _table(root: Path, names: Sequence[str], pythons: dict[str, str], seeds: int) -> str:
    from benchmarks.evidence import patients_of

    lines = [
        f"| CPU s, {STARTS} starts, {seeds} seeds | to 0.1 % of the best | of seeds | to its end "
        "| ends above the best | curve of the first seed: s, Ψ above the best |",
        "|---|---:|---:|---:|---:|---|",
    ]
    for name in names:
        whole = patients_of(name, root)
        indices, counts = whole.coordinates()
        with tempfile.TemporaryDirectory() as folder:
            cells = Path(folder) / "cells.npz"
            np.savez(cells, indices=indices, counts=counts, shape=whole.shape)
            found = measured(cells, pythons, seeds)
        ours = min(curve[-1][1] for v in pythons for curve in found[v])
        for version, curves in found.items():
            best = ours if version in pythons else min(curve[-1][1] for curve in curves)
            near = [seconds_to(curve, best * (1.0 + NEAR)) for curve in curves]
            reached = [one for one in near if np.isfinite(one)]
            some = [curves[0][int(k)] for k in np.linspace(0, len(curves[0]) - 1, 6)]
            each = ", ".join(f"{s:.2f} {100 * (psi / best - 1):.2f} %" for s, psi in some)
            middle = f"{np.median(reached):.2f}" if reached else "–"
            ends = [curve[-1] for curve in curves]
            lines.append(
                f"| {name}, {version} | {middle} | {len(reached)} of {seeds} "
                f"| {np.median([s for s, _ in ends]):.2f} "
                f"| {100 * (np.median([psi for _, psi in ends]) / best - 1):.2f} % | {each} |"
            )
    return "\n".join(lines)


def main(words: list[str]) -> None:
    if words[0] in {"--one", "--peer"}:
        curve = (curve_of if words[0] == "--one" else peer_curve)(Path(words[1]), int(words[2]))
        print(json.dumps(curve))
        return
    asked = argparse.ArgumentParser()
    asked.add_argument("data", type=Path)
    asked.add_argument("names", nargs="*", default=NAMES)
    asked.add_argument("--seeds", type=int, default=SEEDS)
    given = asked.parse_args(words)
    print(report(given.data, given.names, given.seeds))


if __name__ == "__main__":
    main(sys.argv[1:])
