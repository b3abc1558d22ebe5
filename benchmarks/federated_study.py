"""A whole study with the commands a person uses, every machine a process of its own.

The seed paper's UCSD data as to size (8,022 synthetic patients, 748 × 299 codes, rank 10), dealt
to K hospitals; a default study by `exact` under blind sums. Beside it `simulate` of the same study.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from threading import Event, Thread
from typing import Any

import psutil
import pyarrow as pa
import pyarrow.compute as pc

from kit.federation_processes import (
    FederationOnDisk,
    ended,
    factors,
    wait_until,
)
from tripheno.federation.journal import LOG
from tripheno.federation.provisioning import Address
from tripheno.lab.synthetic.network import synthetic_network
from tripheno.lab.synthetic.presets import ucsd_settings
from tripheno.protocol.agreed import read_protocol

RANK, PATIENTS = 10, 8_022
SECONDS_AT_MOST = 900.0
SECONDS_BETWEEN_LOOKS = 2.0
HOSPITALS_FROM = 2  # after the server and the run
ESTABLISHED = "01"  # as the kernel writes it in /proc
Say = Callable[[str], None]


@dataclass(frozen=True)
class StudyPlan:
    """How large, and how long."""

    hospitals: int
    iterations: int = 100  # at most, after the tournament
    scale: float = 1.0


def dealt(hospitals: int, scale: float) -> dict[str, pa.Table]:
    """The patients of the UCSD preset, dealt one by one to so many hospitals."""
    parts, patients, windows = [], 0, 0
    for one in synthetic_network(ucsd_settings()).hospitals:
        table = one.events.select(["patient", "window", "mode", "code"])
        patient = pc.add(table["patient"].cast(pa.int64()), patients)
        window = pc.add(table["window"].cast(pa.int64()), windows)
        parts.append(table.set_column(0, "patient", patient).set_column(1, "window", window))
        patients, windows = pc.max(patient).as_py() + 1, pc.max(window).as_py() + 1
    whole = pa.concat_tables(parts)
    whole = whole.filter(pc.less(whole["patient"], round(scale * patients)))
    turn = pc.subtract(
        whole["patient"], pc.multiply(pc.divide(whole["patient"], hospitals), hospitals)
    )
    return {f"hospital-{k + 1}": whole.filter(pc.equal(turn, k)) for k in range(hospitals)}


def measure_study(plan: StudyPlan, say: Say) -> dict[str, Any]:
    """Prepare, serve, join, run; then simulate. Nothing is left running, whatever happens."""
    with tempfile.TemporaryDirectory(prefix="tripheno-bench-") as name:
        records = dealt(plan.hospitals, plan.scale)
        model = {"rank": str(RANK), "max_iter": str(plan.iterations), "seed": "0", "tol": "1e-15"}
        federation = FederationOnDisk(
            Path(name) / "federation", model, {"round_seconds": 300}, names=tuple(records),
            records=records,
        )  # fmt: skip
        say(f"{plan.hospitals} hospitals: init, cert, ingest, preview, approve")
        began = time.perf_counter()
        federation.prepare()
        prepared = time.perf_counter() - began
        say(f"{plan.hospitals} hospitals: serve, join, run")
        found = run_study(federation, Path(name) / "run")
        say(f"{plan.hospitals} hospitals: the same by simulate")
        federation.simulate(Path(name) / "simulated", Path(name) / "sites")
        same = factors(Path(name) / "run") == factors(Path(name) / "simulated")
        _, simulated = _pace(Path(name) / "simulated", federation.names[0])
    return {
        "hospitals": plan.hospitals, "prepare_seconds": prepared, **found,
        "simulate_ms_a_round": simulated, "over_simulate_ms": found["ms_a_round"] - simulated,
        "same_factors_as_simulate": same,
    }  # fmt: skip


def run_study(federation: FederationOnDisk, out: Path, ports: Sequence[int] = ()) -> dict[str, Any]:
    """Serve, join, run, and what it took; ``ports`` are those hospitals connect to, if others."""
    with ExitStack() as stack:

        def enter(process: subprocess.Popen[bytes]) -> subprocess.Popen[bytes]:
            stack.enter_context(ended(process))
            return process

        began = time.perf_counter()
        server = enter(federation.serve())
        joined = [enter(federation.join(name, "--once")) for name in federation.names]
        _wait_for_connections(federation, joined, ports)
        connected = time.perf_counter() - began
        started, clock = time.time(), time.perf_counter()
        run = enter(federation.run(out))
        memory = stack.enter_context(Memory([server, run, *joined]))
        code = run.wait(timeout=SECONDS_AT_MOST)
        seconds = time.perf_counter() - clock
        if code != 0:
            raise RuntimeError(federation.said("run")[-2_000:])
        for process in joined:
            process.wait(timeout=60)
    return {
        "connect_seconds": connected, "run_seconds": seconds,
        **_from_the_files(federation, out, started), **memory.found(),
    }  # fmt: skip


def _wait_for_connections(
    federation: FederationOnDisk, joined: list[subprocess.Popen[bytes]], ports: Sequence[int]
) -> None:
    """Until every hospital's agent has its line to the server's port, or to one of its own."""
    protocol = read_protocol(federation.coordinator / "federation.toml")
    usual = Address.of(protocol.operation.address).port
    wanted = [*ports] or [usual] * len(joined)

    def everyone() -> bool:
        for process, name in zip(joined, federation.names, strict=True):
            if process.poll() is not None:
                raise RuntimeError(f"{name} left: " + federation.said(name)[-500:])
        lines = [_lines_of(process.pid) for process in joined]
        return all(own.count(port) >= wanted.count(port)
                   for own, port in zip(lines, wanted, strict=True))  # fmt: skip

    wait_until("every hospital is connected", everyone, 300.0)


def _lines_of(process: int) -> list[int]:
    """The ports at the other end of all lines in a process's network."""
    found = []
    for kind in ("tcp", "tcp6"):
        for line in Path(f"/proc/{process}/net/{kind}").read_text().splitlines()[1:]:
            _, _, there, state, *_ = line.split()
            if state == ESTABLISHED:
                found.append(int(there.rpartition(":")[2], 16))
    return found


def _from_the_files(federation: FederationOnDisk, out: Path, started: float) -> dict[str, Any]:
    """What the run wrote down itself."""
    summary = json.loads((out / "run.json").read_text())
    log = federation.coordinator / "state" / "runs" / summary["run"] / LOG
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    greeted = next(line for line in lines if line["event"] == "phase")
    first = federation.names[0]
    rounds, pace = _pace(federation.site(first) / "state" / "runs" / summary["run"], first)
    return {
        "shape": summary["shape"], "nonzeros": summary["nonzeros"],
        "iterations": summary["iterations"], "rounds": rounds, "ms_a_round": pace,
        "to_first_round_seconds": datetime.fromisoformat(greeted["time"]).timestamp() - started,
        "megabytes": summary["bytes"]["total"] / 1e6,
    }  # fmt: skip


def _pace(folder: Path, hospital: str) -> tuple[int, float]:
    """Rounds of a study, and milliseconds between them, as a hospital's audit log has them."""
    lines = map(json.loads, (folder / "audit.jsonl").read_text().splitlines())
    times = [
        datetime.fromisoformat(one["at"])
        for one in lines
        if one.get("direction") == "out" and one.get("hospital", hospital) == hospital
    ]
    return len(times), 1e3 * (times[-1] - times[0]).total_seconds() / len(times)


class Memory:
    """The largest memory of some processes and all they start, shared pages counted once."""

    def __init__(self, processes: list[subprocess.Popen[bytes]]) -> None:
        self._roots = [process.pid for process in processes]
        self._peak, self._most, self._ending = 0, 0, Event()
        self._hospital: list[int] = []  # the largest one's, at every look
        self._thread = Thread(target=self._watch, daemon=True)

    def _watch(self) -> None:
        while not self._ending.wait(SECONDS_BETWEEN_LOOKS):
            families = [_sizes(root) for root in self._roots]
            sizes = [size for family in families for size in family]
            self._peak, self._most = max(self._peak, sum(sizes)), max(self._most, len(sizes))
            self._hospital.append(max(map(sum, families[HOSPITALS_FROM:])))

    def found(self) -> dict[str, float]:
        return {"peak_mb": self._peak / 1e6, "processes": self._most,
                "hospital_mb": max(self._hospital) / 1e6,
                "hospital_usual_mb": statistics.median(self._hospital) / 1e6}  # fmt: skip

    def __enter__(self) -> Memory:
        self._thread.start()
        return self

    def __exit__(self, *_ending: object) -> None:
        self._ending.set()
        self._thread.join()


def _sizes(root: int) -> list[int]:
    found = []
    try:
        family = [psutil.Process(root), *psutil.Process(root).children(recursive=True)]
    except psutil.Error:
        return []
    for one in family:
        try:
            found.append(int(one.memory_full_info().pss))
        except psutil.Error:
            continue
    return found
