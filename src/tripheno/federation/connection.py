"""Whether a hospital's agent has its line to the coordinator: for its log and for `status`.

The engine keeps the line and says little of it, so the kernel is asked: is there a connection of
the agent's to the coordinator's port (or the proxy's), and is what it sends confirmed? When a cable
is pulled out the connection stays, and the same packets are sent again and again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

import psutil

SECONDS_BETWEEN_LOOKS = 2.0
MOST_REPEATS = 4  # of a packet nobody confirms: about six seconds, and no mere delay


@contextmanager
def watched(
    pid: Callable[[], int | None], ports: frozenset[int], tell: Callable[[bool], None]
) -> Iterator[None]:
    """While the block lasts, tell when the line of a process comes, is lost, and is regained."""
    ending = Event()

    def watch() -> None:
        before = False
        while not ending.wait(SECONDS_BETWEEN_LOOKS):
            now = stands(pid(), ports)
            if now != before:
                tell(now)
            before = now

    Thread(target=watch, name="tripheno-line", daemon=True).start()
    try:
        yield
    finally:
        ending.set()


def stands(pid: int | None, ports: frozenset[int]) -> bool:
    """Whether a process has a connection to one of these ports over which its words arrive."""
    try:
        lines = psutil.Process(pid).net_connections("inet") if pid else []
        repeats = _repeats(pid) if lines else {}
    except (psutil.Error, OSError):
        return False
    return any(
        one.status == psutil.CONN_ESTABLISHED
        and one.raddr.port in ports
        and repeats.get(one.laddr.port, 0) <= MOST_REPEATS
        for one in lines
    )


def _repeats(pid: int | None) -> dict[int, int]:
    """Own port → how often its oldest packet was sent again, in the network of a process."""
    found = {}
    for kind in ("tcp", "tcp6"):
        path = Path(f"/proc/{pid}/net/{kind}")
        for line in path.read_text(encoding="ascii").splitlines()[1:] if path.is_file() else ():
            words = line.split()
            found[int(words[1].rpartition(":")[2], 16)] = int(words[6], 16)
    return found
