"""Thousands of rounds over the engine: threads, memory and descriptors stay where they were."""

import gc
import time

import psutil
import pytest

from kit.engine_federation import EngineFederation
from tripheno.federation.channel import EngineChannel

# the engine leaves the sockets of a login that failed to the garbage collector
pytestmark = [
    pytest.mark.verify,
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
PARTS = ("worker_process", "runner_process", "client_train", "server_train")
WORDS = bytes(20_000)
# The engine's pools make a thread whenever none of theirs is idle, up to a fixed size: a process
# has as many as were ever at work at once. At ten hospitals the server's job had 57 after 100
# rounds, 67 after 500, 70 after 1,000 and 72 after 2,000, all of them in pools; counted while the
# pools fill, that looks like a leak.
SETTLED = 1_000


def usage():
    """Process of the engine → threads, MB, descriptors."""
    found = {}
    for process in psutil.Process().children(recursive=True):
        words = " ".join(process.cmdline())
        kind = next((part for part in PARTS if part in words), "")
        if kind:
            size = process.memory_info().rss >> 20
            found[process.pid] = (kind, process.num_threads(), size, process.num_fds())
    return found


@pytest.mark.parametrize(
    ("hospitals", "rounds"),
    [(3, 400), (3, 10_000), (10, 2_000)],
)
def test_an_engine_needs_no_more_after_thousands_of_rounds(
    tmp_path, record_property, hospitals, rounds
):
    names = tuple(f"hospital-{number}" for number in range(hospitals))
    made = EngineFederation(tmp_path, names)
    with made.running(), made.line(round_seconds=180.0) as (line, counters):
        for counter in counters.values():
            counter.respond_with(lambda step, data: data)
        channel = EngineChannel(line)
        for number in range(SETTLED):
            channel.round(f"settle/{number}", WORDS)
        before, began = usage(), time.monotonic()
        for number in range(rounds):
            channel.round(f"soak/{number}", WORDS)
        seconds, after = time.monotonic() - began, usage()
        assert line.jobs == 1
    gc.collect()
    assert len(after) == 2 * hospitals + 2
    record_property("usage", str(sorted(after.values())))
    record_property("ms a round", round(1e3 * seconds / rounds))
    for pid, (kind, threads, size, descriptors) in after.items():
        assert threads <= 16 + 8 * hospitals + 16, kind
        assert threads <= before[pid][1] + 8, kind
        assert size <= before[pid][2] + 64, kind
        assert descriptors <= before[pid][3] + 8, kind
