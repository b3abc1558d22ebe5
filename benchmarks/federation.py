"""What the engine costs: a round over in-process, to the first round, whole studies.

``python -m benchmarks.federation [--quick] [FOLDER]`` starts real processes over mutual TLS on this
machine and ends them all, also when it fails or is stopped. With a folder it writes
``benchmarks-federation.json`` and ``.md`` there.
"""

from __future__ import annotations

import json
import os
import platform
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.federated_study import StudyPlan, measure_study
from kit.engine_federation import EngineFederation
from tripheno.federation.channel import EngineChannel
from tripheno.federation.transport import Channel, InProcessChannel

UCSD, MIMIC = 748 * 10 * 8, 3_229 * 10 * 8  # bytes of the larger factor in the seed paper's data
GOAL = 50.0  # ms over in-process at three hospitals
Say = Callable[[str], None]


@dataclass(frozen=True)
class Plan:
    """What is measured."""

    rounds: int = 100
    crowds: tuple[int, ...] = (3, 10)
    studies: tuple[StudyPlan, ...] = (StudyPlan(3), StudyPlan(10))


QUICK = Plan(40, (3,), (StudyPlan(3, iterations=5, scale=0.1),))


def _echo(_step: str, data: bytes) -> bytes:
    return data


def _timed(channel: Channel, size: int, rounds: int) -> list[float]:
    message = np.random.default_rng(0).bytes(size)
    seconds = []
    for number in range(-5, rounds):  # the first few find caches and threads cold
        started = time.perf_counter()
        channel.round(f"iterate/{size}/{number}", message)
        if number >= 0:
            seconds.append(time.perf_counter() - started)
    return seconds


def measure_rounds(hospitals: int, rounds: int) -> list[dict[str, Any]]:
    """Milliseconds a round in process and over the engine; hospitals answer with what they got."""
    names = tuple(f"hospital-{k + 1}" for k in range(hospitals))
    plain = InProcessChannel(dict.fromkeys(names, _echo))
    with tempfile.TemporaryDirectory(prefix="tripheno-bench-") as folder:
        federation = EngineFederation(Path(folder), names)
        with federation.running(), federation.line(600.0) as (line, relays):
            for relay in relays.values():
                relay.respond_with(_echo)
            channel = EngineChannel(line)
            channel.round("everybody is there", b"")
            line.hang_up()
            started = time.perf_counter()
            channel.round("first", b"")
            job = time.perf_counter() - started
            return [
                {"hospitals": hospitals, "bytes": size, "job_seconds": job, "rounds": rounds,
                 **_compared(_timed(plain, size, rounds), _timed(channel, size, rounds))}
                for size in (UCSD, MIMIC)
            ]  # fmt: skip


def _compared(plain: list[float], engine: list[float]) -> dict[str, float]:
    median, before = 1e3 * statistics.median(engine), 1e3 * statistics.median(plain)
    p95 = 1e3 * sorted(engine)[int(0.95 * len(engine))]
    found = {"in_process_ms": before, "median_ms": median, "p95_ms": p95}
    return {**found, "least_ms": 1e3 * min(engine), "over_ms": median - before}


def measure(plan: Plan, say: Say) -> dict[str, Any]:
    """Everything, with the machine and the date."""
    began, load = time.perf_counter(), os.getloadavg()[0]
    rounds, studies = [], []
    for hospitals in plan.crowds:
        say(f"rounds of {hospitals} hospitals")
        rounds += measure_rounds(hospitals, plan.rounds)
    for study in plan.studies:
        studies.append(measure_study(study, say))
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "load_before": load, "load_after": os.getloadavg()[0],
        "seconds": time.perf_counter() - began, "goal_ms": GOAL,
        "rounds": rounds, "studies": studies,
    }  # fmt: skip


def markdown(found: dict[str, Any]) -> str:
    """Two tables."""
    lines = [
        "# The engine, measured on one machine",
        "",
        f"{found['date']} · {found['machine']} · load before {found['load_before']:.1f}, after "
        f"{found['load_after']:.1f} · `python -m benchmarks.federation`, {found['seconds']:.0f} s",
        "",
        "A round trip of the same bytes to every hospital and back, over mutual TLS on loopback; "
        "hospitals answer with what they got. The sizes are those of the larger factor in the seed "
        "paper's UCSD and MIMIC-III data at rank 10.",
        "",
        "| hospitals | KB each way | in process, ms | engine, median / p95, ms | over in-process |"
        " a job's start, s |",
        "|--:|--:|--:|--:|--:|--:|",
    ]
    for one in found["rounds"]:
        over = f"{one['over_ms']:.0f} ms"
        if one["hospitals"] == 3:
            met = "met" if one["over_ms"] <= found["goal_ms"] else "missed"
            over += f" (target ≤ {found['goal_ms']:.0f}: {met})"
        lines.append(
            f"| {one['hospitals']} | {one['bytes'] / 1e3:.0f} | {one['in_process_ms']:.2f} | "
            f"{one['median_ms']:.0f} / {one['p95_ms']:.0f} | {over} | {one['job_seconds']:.1f} |"
        )
    return "\n".join([*lines, "", *_studies(found["studies"])]) + "\n"


def _studies(studies: list[dict[str, Any]]) -> list[str]:
    lines = [
        "Whole studies with the commands a person uses, every machine a process of its own: "
        "`exact`, blind sums, 16 starts, rank 10, on synthetic patients as many as in the seed "
        "paper's UCSD data, without resamples. `simulate` is the same study in one process.",
        "",
        "| | " + " | ".join(f"{one['hospitals']} hospitals" for one in studies) + " |",
        "|---|" + "--:|" * len(studies),
    ]
    rows: dict[str, Callable[[dict[str, Any]], str]] = {
        "patients × codes × codes": lambda s: " × ".join(f"{n:,}" for n in s["shape"]),
        "cells": lambda s: f"{s['nonzeros']:,}",
        "`init`, `cert`, `ingest`, `preview`, `approve`, all hospitals, in one process": (
            lambda s: f"{s['prepare_seconds']:.0f} s"
        ),
        "`serve` and `join` until all are connected": lambda s: f"{s['connect_seconds']:.1f} s",
        "from `run` to the first round": lambda s: f"{s['to_first_round_seconds']:.1f} s",
        "iterations, rounds": lambda s: f"{s['iterations']}, {s['rounds']}",
        "a round": lambda s: f"{s['ms_a_round']:.0f} ms",
        "the same in `simulate`": lambda s: f"{s['simulate_ms_a_round']:.0f} ms",
        "difference": lambda s: f"{s['over_simulate_ms']:.0f} ms",
        "`run` from start to report": lambda s: f"{s['run_seconds']:.1f} s",
        "sent, all hospitals": lambda s: f"{s['megabytes']:.0f} MB",
        "factors equal to `simulate`, bit for bit": lambda s: (
            "yes" if s["same_factors_as_simulate"] else "NO"
        ),
        "peak memory, all processes": lambda s: f"{s['peak_mb']:,.0f} MB, {s['processes']}",
        "a hospital's, with its engine and job": lambda s: f"{s['hospital_mb']:,.0f} MB",
    }
    return lines + [
        f"| {name} | " + " | ".join(tell(one) for one in studies) + " |"
        for name, tell in rows.items()
    ]


def report(folder: Path | None = None, *, quick: bool = False, say: Say = lambda _: None) -> str:
    """Measure and tell; with a folder, as files too."""
    found = measure(QUICK if quick else Plan(), say)
    page = markdown(found)
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        name = "benchmarks-federation"
        (folder / f"{name}.json").write_text(json.dumps(found, indent=2) + "\n", "utf-8")
        (folder / f"{name}.md").write_text(page, "utf-8")
    return page


def stop_once(_number: int, _frame: Any) -> None:
    """The first request to stop tidies up; further ones must not cut that short."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


def main(words: list[str]) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop_once)
    folder = next((Path(word) for word in words if not word.startswith("-")), None)
    try:
        print(report(folder, quick="--quick" in words,
                     say=lambda text: print(text, file=sys.stderr, flush=True)))  # fmt: skip
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main(sys.argv[1:])
