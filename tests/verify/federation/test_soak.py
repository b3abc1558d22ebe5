"""Thousands of rounds over the engine: threads, memory and descriptors stay where they were."""

import gc

import psutil
import pytest

from tripheno.federation.channel import EngineChannel
from tripheno.testing.engine_federation import EngineFederation

# the engine leaves the sockets of a login that failed to the garbage collector
pytestmark = [
    pytest.mark.verify,
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
PARTS = ("worker_process", "runner_process", "client_train", "server_train")
WORDS = bytes(20_000)
SETTLED = 100  # rounds after which an engine's process has what it needs


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
        before = usage()
        for number in range(rounds):
            channel.round(f"soak/{number}", WORDS)
        after = usage()
        assert line.jobs == 1
    gc.collect()
    assert len(after) == 2 * hospitals + 2
    record_property("usage", str(sorted(after.values())))
    for pid, (kind, threads, size, descriptors) in after.items():
        assert threads <= 16 + 8 * hospitals + 16, kind
        assert threads <= before[pid][1] + 8, kind
        assert size <= before[pid][2] + 64, kind
        assert descriptors <= before[pid][3] + 8, kind
