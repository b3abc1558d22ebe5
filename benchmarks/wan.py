"""A study between hospitals that are far away: 50 ms there and back, 10 Mbit/s each way.

``heavy`` work for two minutes, as root: ``python -m benchmarks.wan [--starts N] [--resamples N]
[--shared]``; what the first version did is ``--starts 1 --resamples 0``. The coordinator and the
hospitals stand in two networks of their own; every hospital reaches the coordinator through a relay
that holds each byte back for 25 ms and lets 10 Mbit/s pass in each direction. With ``--shared`` all
hospitals share one such line, as if it were the coordinator's.
A line has no losses and no slow start: it is a delay and a rate, and says so.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.federated_study import RANK, dealt, run_study
from benchmarks.federation import stop_once
from kit.engine_federation import free_port
from kit.federation_processes import (
    FederationOnDisk,
    ended,
)
from kit.networks import HERE, HOST, Cable, two_networks
from tripheno.federation.provisioning import Address
from tripheno.protocol.agreed import read_protocol

ONE_WAY_SECONDS, BYTES_A_SECOND = 0.025, 10e6 / 8
BLOCK = 16 * 1024
MOST_WAITING = 0.2  # seconds of bytes that a line takes before it lets the sender wait
GOAL = 45.0  # seconds from `run` to report


# ── the line ──────────────────────────────────────────────────────────────────────────────────


@dataclass
class Direction:
    """One direction of a line: bytes leave one after the other, and arrive a while later."""

    free_at: float = 0.0

    def arrival(self, size: int, now: float) -> float:
        """When a block that comes now has arrived."""
        self.free_at = max(self.free_at, now) + size / BYTES_A_SECOND
        return self.free_at + ONE_WAY_SECONDS


async def _pass_on(
    source: asyncio.StreamReader, target: asyncio.StreamWriter, direction: Direction
) -> None:
    """What arrives at one end leaves at the other, late."""
    loop, under_way = asyncio.get_running_loop(), asyncio.Queue[tuple[float, bytes]]()

    async def deliver() -> None:
        while True:
            due, data = await under_way.get()
            await asyncio.sleep(due - loop.time())
            if not data:
                break
            target.write(data)
            await target.drain()
        with suppress(OSError):
            target.write_eof()

    delivering = asyncio.create_task(deliver())
    with suppress(OSError):
        while data := await source.read(BLOCK):
            under_way.put_nowait((direction.arrival(len(data), loop.time()), data))
            await asyncio.sleep(direction.free_at - loop.time() - MOST_WAITING)
    under_way.put_nowait((direction.arrival(0, loop.time()), b""))
    with suppress(OSError):
        await delivering


async def relay(ports: Sequence[int], target: tuple[str, int], *, shared: bool) -> None:
    """A line from each of these ports to the target, or one for all of them."""
    one = (Direction(), Direction())
    servers = []
    for port in ports:
        up, down = one if shared else (Direction(), Direction())

        async def connect(
            reader: asyncio.StreamReader, writer: asyncio.StreamWriter,
            up: Direction = up, down: Direction = down,
        ) -> None:  # fmt: skip
            await asyncio.sleep(2.0 * ONE_WAY_SECONDS)  # the greeting of TCP
            try:
                far_reader, far_writer = await asyncio.open_connection(*target)
            except OSError:
                writer.close()
                return
            await asyncio.gather(
                _pass_on(reader, far_writer, up), _pass_on(far_reader, writer, down)
            )
            for end in (writer, far_writer):
                end.close()

        servers.append(await asyncio.start_server(connect, "127.0.0.1", port, limit=BLOCK))
    await asyncio.gather(*(server.serve_forever() for server in servers))


# ── the study ─────────────────────────────────────────────────────────────────────────────────


@contextmanager
def far_away(federation: FederationOnDisk, cable: Cable, *, shared: bool) -> Iterator[list[int]]:
    """Hospitals that reach the coordinator through the relay only; yields the relay's ports."""
    protocol = read_protocol(federation.coordinator / "federation.toml")
    port = Address.of(protocol.operation.address).port
    names = Path("/etc/netns") / cable.there / "hosts"
    names.write_text(f"127.0.0.1 localhost\n127.0.0.1 {HOST}\n", encoding="utf-8")
    # the first hospital's line has the port that everybody tries before the engine does
    ports = [port, *(free_port() for _ in federation.names[1:])]
    for name, own in zip(federation.names, ports, strict=True):
        kit = next(federation.site(name).rglob("startup/fed_client.json"))
        direct = kit.read_text(encoding="utf-8")
        kit.write_text(direct.replace(f"{HOST}:{port}", f"{HOST}:{own}"), encoding="utf-8")
    words = [*cable.words(cable.there), sys.executable, "-m", "benchmarks.wan", "--relay",
             f"{HERE}:{port}", *map(str, ports), *(["--shared"] if shared else [])]  # fmt: skip
    process = subprocess.Popen(words)
    with ended(process):
        yield ports


def measure(starts: int | None, resamples: int | None, *, shared: bool) -> dict[str, Any]:
    """A study of UCSD's size, by default as it comes, from `run` to report, over such lines."""
    model = {"rank": str(RANK), "seed": "0", **({"starts": str(starts)} if starts else {})}
    more = "" if resamples is None else f"[evidence]\nresamples = {resamples}\n"
    with tempfile.TemporaryDirectory(prefix="tripheno-wan-") as name, two_networks() as cable:
        records = dealt(3, 1.0)
        before = dict.fromkeys(("serve", "run"), cable.words(cable.here))
        before |= dict.fromkeys(records, cable.words(cable.there))
        federation = FederationOnDisk(
            Path(name) / "federation", model, {"round_seconds": 300}, names=tuple(records),
            records=records, more=more, simulated=(), host=HOST, before=before,
        )  # fmt: skip
        federation.prepare()
        with far_away(federation, cable, shared=shared) as ports:
            found = run_study(federation, Path(name) / "run", ports)
            phases = _phases(federation, Path(name) / "run")
    how = {"starts": starts, "resamples": resamples, "shared": shared}  # null: as it comes
    return {**how, **found, "phases": phases}


def _phases(federation: FederationOnDisk, out: Path) -> dict[str, float]:
    """Seconds in each phase, as the coordinator's log has them."""
    summary = json.loads((out / "run.json").read_text())
    log = federation.coordinator / "state" / "runs" / summary["run"] / "log.jsonl"
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    times = [datetime.fromisoformat(line["time"]).timestamp() for line in lines]
    found: dict[str, float] = {}
    marks = [(t, line["text"]) for t, line in zip(times, lines, strict=True)
             if line["event"] == "phase"]  # fmt: skip
    for (begin, stage), (end, _) in zip(marks, [*marks[1:], (times[-1], "")], strict=True):
        found[stage] = round(found.get(stage, 0.0) + end - begin, 2)
    return found


def main(words: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--starts", type=int)
    parser.add_argument("--resamples", type=int)
    parser.add_argument("--shared", action="store_true")
    parser.add_argument("--relay", nargs="+", metavar="TARGET PORT", help=argparse.SUPPRESS)
    given = parser.parse_args(words)
    if given.relay:
        host, _, port = given.relay[0].rpartition(":")
        ports = [int(one) for one in given.relay[1:]]
        asyncio.run(relay(ports, (host, int(port)), shared=given.shared))
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop_once)
    began = time.perf_counter()
    found = measure(given.starts, given.resamples, shared=given.shared)
    found["date"] = datetime.now(UTC).isoformat(timespec="seconds")
    found["bench_seconds"] = round(time.perf_counter() - began)
    found["goal_met"] = found["run_seconds"] <= GOAL
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main(sys.argv[1:])
