"""A federation on this machine over the real engine: certificates, server, agents, mutual TLS.

Hospitals' responders stand in the calling process, so that a test sees what each was asked.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tripheno.errors import RunFailed
from tripheno.federation.line import EngineLine, EngineSettings, Notice
from tripheno.federation.provisioning import LEAD, Address, Machine
from tripheno.federation.relay import RelayServer
from tripheno.federation.supervision import Supervised, agent_words, server_words


def free_port() -> int:
    """A TCP port nobody uses at the moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def bring_code(job: Path, way: str, marker: Path) -> Path:
    """Change a job so that a site that runs it makes a file: the ways in that the engine had."""
    app = job / "app"
    client = app / "config" / "config_fed_client.json"
    own = "tripheno.federation.job.HospitalPost"
    code = f"import pathlib\nclass Evil:\n    pathlib.Path({str(marker)!r}).touch()\n"
    text, folder = client.read_text(encoding="utf-8"), app / "custom"
    if way == "custom folder":
        client.write_text(text.replace(own, "evil.Evil"), encoding="utf-8")
    elif way == "installed class":
        client.write_text(text.replace(own, "tripheno.cli.console.Progress"), encoding="utf-8")
        return marker
    else:
        folder = app / "config"
        (folder / "comm_config.json").write_text('{"comm_driver_path": "."}', encoding="utf-8")
    folder.mkdir(exist_ok=True)
    (folder / "evil.py").write_text(code, encoding="utf-8")
    return marker


class EngineFederation:
    """Kits for a coordinator and hospitals below one folder, made once."""

    def __init__(self, folder: Path, hospitals: tuple[str, ...]) -> None:
        self.folder, self.hospitals = folder, hospitals
        self.address = Address("localhost", free_port())
        self.coordinator = Machine(folder / "coordinator")
        fingerprint = self.coordinator.found_authority(self.address)
        self.server = self.coordinator.own_kit("localhost", "server", self.address, fingerprint)
        self.lead = self.coordinator.own_kit(LEAD, "admin", self.address, fingerprint)
        self.kits = {name: self._admit(name, fingerprint) for name in hospitals}

    def _admit(self, name: str, fingerprint: str) -> Path:
        machine = Machine(self.folder / name)
        request = machine.request(name, "client", self.address)
        signed = self.coordinator.approve(
            request, self.folder / f"{name}.signed.zip", self.hospitals
        )
        return machine.install(signed, name, fingerprint).workspace

    @contextmanager
    def running(self) -> Iterator[None]:
        """The server and every agent at work."""
        with ExitStack() as stack:
            words = server_words(self.server.workspace)
            stack.enter_context(Supervised(words, self.server.workspace, _ignore))
            for name, kit in self.kits.items():
                stack.enter_context(Supervised(agent_words(kit, name), kit, _ignore))
            yield

    @contextmanager
    def line(
        self, round_seconds: float = 300.0, notice: Notice | None = None
    ) -> Iterator[tuple[EngineLine, dict[str, RelayServer]]]:
        """The coordinator's line, and every hospital's relay, whose responders are to be set."""
        engine_settings = EngineSettings(
            self.server.workspace, self.lead.workspace, self.folder / "job", round_seconds
        )
        with ExitStack() as stack:
            relays = {
                name: stack.enter_context(RelayServer(kit, _nobody))
                for name, kit in self.kits.items()
            }
            yield stack.enter_context(EngineLine(self.hospitals, engine_settings, notice)), relays


def _nobody(step: str, data: bytes) -> bytes:
    raise RunFailed("nobody is here", where=f"{step}, {len(data)} bytes")


def _ignore(_text: str) -> None:
    return
