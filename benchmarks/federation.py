"""What the engine costs: per round over an in-process channel, to the first round, a whole study.

``python -m benchmarks.federation [--quick]`` starts real processes over mutual TLS on this machine.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from tripheno.exchange.channel import Channel, InProcessChannel
from tripheno.federation.channel import EngineChannel
from tripheno.testing.engine_federation import EngineFederation

BYTES = 258_000  # one mode's factor at the size of the seed paper's UCSD data
ROUNDS = 200
GOAL = 50.0  # ms over in-process at three hospitals


def _echo(_step: str, data: bytes) -> bytes:
    return data


def _timed(channel: Channel, rounds: int) -> list[float]:
    message = np.random.default_rng(0).bytes(BYTES)
    seconds = []
    for number in range(rounds):
        started = time.perf_counter()
        channel.round(f"iterate/{number}/0/0", message)
        seconds.append(time.perf_counter() - started)
    return seconds


def measure(hospitals: int, rounds: int) -> dict[str, float]:
    """Milliseconds a round in process and over the engine, and seconds to the first one."""
    names = tuple(f"hospital-{k + 1}" for k in range(hospitals))
    plain = _timed(InProcessChannel(dict.fromkeys(names, _echo)), rounds)
    with tempfile.TemporaryDirectory() as folder:
        federation = EngineFederation(Path(folder), names)
        with federation.running(), federation.line(600.0) as (line, counters):
            for counter in counters.values():
                counter.respond_with(_echo)
            channel = EngineChannel(line)
            channel.round("everybody is there", b"")
            line.hang_up()
            started = time.perf_counter()
            channel.round("first", b"")
            first = time.perf_counter() - started
            began = time.perf_counter()
            seconds = _timed(channel, rounds)
            whole = time.perf_counter() - began
    return {
        "in_process": 1e3 * statistics.median(plain),
        "median": 1e3 * statistics.median(seconds),
        "p95": 1e3 * sorted(seconds)[int(0.95 * len(seconds))],
        "first": first,
        "whole": whole,
    }


def report(rounds: int = ROUNDS, say: Callable[[str], None] = lambda _text: None) -> str:
    """A table of three and of ten hospitals."""
    lines = [
        f"## The engine: {BYTES / 1000:,.0f} KB each way, mutual TLS, one machine",
        "",
        "| hospitals | in process, ms a round | engine, median / p95 | over in-process | "
        f"from `run` to the first round, s | {rounds} rounds, s |",
        "|--:|--:|--:|--:|--:|--:|",
    ]
    for hospitals in (3, 10):
        say(f"engine with {hospitals} hospitals")
        one = measure(hospitals, rounds)
        over = one["median"] - one["in_process"]
        met = f" (target ≤ {GOAL:.0f}: {'met' if over <= GOAL else 'missed'})"
        lines.append(
            f"| {hospitals} | {one['in_process']:.2f} | {one['median']:.0f} / {one['p95']:.0f} | "
            f"{over:.0f} ms{met if hospitals == 3 else ''} | {one['first']:.1f} | "
            f"{one['whole']:.1f} |"
        )
    return "\n".join(lines)


def main(words: list[str]) -> None:
    rounds = 40 if "--quick" in words else ROUNDS
    print(report(rounds, lambda text: print(text, file=sys.stderr, flush=True)))


if __name__ == "__main__":
    main(sys.argv[1:])
