"""Two networks of their own on one machine, and the cable between them."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kit.requirements import require, tool

HERE, THERE = "10.213.77.1", "10.213.77.2"
HOST = "coordinator.test"
NAMES = f"127.0.0.1 localhost\n{HERE} {HOST}\n"


@dataclass(frozen=True)
class Cable:
    """A virtual cable: pulled out, packets are lost and nobody is told."""

    here: str  # the network of the coordinator
    there: str  # the network of a hospital elsewhere

    def words(self, network: str) -> tuple[str, ...]:
        """What stands before a command that runs in a network."""
        return (str(tool("ip")), "netns", "exec", network)

    def silence(self) -> None:
        """Pull it out."""
        _ip("-n", self.here, "link", "set", "cable", "down")

    def mend(self) -> None:
        """Plug it in again."""
        _ip("-n", self.here, "link", "set", "cable", "up")


@contextmanager
def two_networks() -> Iterator[Cable]:
    """Two networks that know the coordinator's host by name; gone when the block ends."""
    cable = Cable(f"tripheno-{os.getpid()}-here", f"tripheno-{os.getpid()}-there")
    done = _ip("netns", "add", cable.here, check=False)
    require(done.returncode == 0, "only root may make networks")
    try:
        _ip("netns", "add", cable.there)
        _ip("-n", cable.here, "link", "add", "cable", "type", "veth",
            "peer", "name", "cable", "netns", cable.there)  # fmt: skip
        for network, address in ((cable.here, HERE), (cable.there, THERE)):
            folder = Path("/etc/netns") / network
            folder.mkdir(parents=True)
            (folder / "hosts").write_text(NAMES, encoding="utf-8")
            _ip("-n", network, "address", "add", f"{address}/24", "dev", "cable")
            for device in ("lo", "cable"):
                _ip("-n", network, "link", "set", device, "up")
        yield cable
    finally:
        for network in (cable.here, cable.there):
            _ip("netns", "delete", network, check=False)
            shutil.rmtree(Path("/etc/netns") / network, ignore_errors=True)


def _ip(*words: str, check: bool = True) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([str(tool("ip")), *words], check=check, capture_output=True)
