"""Where a coordinator and a hospital keep what belongs to a federation on their own disks.

::

    COORDINATOR/federation.toml   the study
    COORDINATOR/keys/             the key that countersigns audit heads
    COORDINATOR/state/engine/     certificate authority, server, login
    COORDINATOR/state/runs/RUN/   attempts, audit heads, who is awaited

    HOSPITAL/site.toml            beside it keys/, the approval and, in `folders.state`, the rest
    HOSPITAL/state/engine/        request, key, certificate
    HOSPITAL/state/runs/RUN/      checkpoints, audit log
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tripheno import __version__
from tripheno.errors import NameTaken, NoKit, OtherProtocol
from tripheno.federation.line import Awaited, EngineSettings
from tripheno.federation.preflight import check_port_is_free
from tripheno.federation.provisioning import LEAD, Address, Kit, Machine, port_of
from tripheno.files import held, lock, write_text
from tripheno.privacy.audit import Head, read_head
from tripheno.protocol.agreed import StudyProtocol, protocol_hash
from tripheno.protocol.site import Site
from tripheno.study.store import RunStore, write_whole


@contextmanager
def alone(folder: Path, who: str) -> Iterator[None]:
    """Hold a folder for one process at a time; a second one is refused."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    with ExitStack() as stack:
        try:
            stack.enter_context(held(folder / "lock"))
        except BlockingIOError:
            raise NameTaken(
                f"{who} is already at work in this folder", where=str(folder),
                fix="stop the other process first",
            ) from None  # fmt: skip
        yield


def is_held(folder: Path) -> bool:
    """Whether a process is at work in a folder."""
    try:
        with (folder / "lock").open("rb+") as stream:
            lock(stream.fileno(), shared=True)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return False


class CoordinatorHome:
    """A coordinator's folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        self.state = self.folder / "state"
        self.running = self.state / "running"  # held by `tripheno run`
        self.machine = Machine(self.state / "engine")
        self.key = self.folder / "keys" / "coordinator.key"

    def prepare(self, protocol: StudyProtocol) -> tuple[str, Kit]:
        """The authority, the server's kit and the login, made where they are missing."""
        address = Address.of(protocol.operation.address)
        fingerprint = self.machine.found_authority(address)
        kit = self.machine.own_kit(address.host, "server", address, fingerprint)
        self.machine.own_kit(LEAD, "admin", address, fingerprint)
        return fingerprint, kit

    def own_kits(self, protocol: StudyProtocol) -> list[tuple[str, Kit, str]]:
        """The coordinator's own certificates: what for, in which kit, in which role there."""
        server = self.machine.kit(Address.of(protocol.operation.address).host)
        return [("server", server, "server"), ("login", self.machine.kit(LEAD), "client")]

    def renew(self, protocol: StudyProtocol, days: int) -> dict[str, int]:
        """New certificates where fewer days are left; how many days each is good for.

        The keys stay: the server's has signed what agents and jobs that are connected show it, and
        under another one it would refuse them until each is started again.
        """
        address = Address.of(protocol.operation.address)
        fingerprint, _ = self.prepare(protocol)
        found = {}
        for label, kit, role in self.own_kits(protocol):
            if kit.days_left(role) < days:
                kind = {"server": "server", "client": "admin"}[role]
                self.machine.make_own(kit.workspace.name, kind, address, fingerprint)
            found[label] = kit.days_left(role)
        return found

    def engine_settings(
        self, protocol: StudyProtocol, network: tuple[Path, Path] | None = None
    ) -> EngineSettings:
        """Where `run` finds the server and its login: our own, or those of another network."""
        seconds = float(protocol.operation.round_seconds)
        if network is not None:
            server, lead = (path.resolve() for path in network)
            return EngineSettings(server, lead, self.state / "job", seconds)
        own = self.machine.kit(Address.of(protocol.operation.address).host)
        if not own.ready:
            raise NoKit("there is no server here yet", fix="start `tripheno serve` first")
        return EngineSettings(
            own.workspace, self.machine.kit(LEAD).workspace, self.state / "job", seconds
        )

    def forget_jobs(self, kit: Kit) -> None:
        """Before a server starts: its port is free, and no job of one that was killed is left.

        The engine would take such a job for running, and a port that is taken for no reason to say
        a word.
        """
        from tripheno.federation.supervision import end_leftover  # noqa: PLC0415  needs the extra

        end_leftover(kit.workspace / "engine.pid", kit.workspace)
        check_port_is_free(port_of(kit))
        shutil.rmtree(self.machine.folder / "store" / kit.workspace.name, ignore_errors=True)

    # ── runs ──────────────────────────────────────────────────────────────────────────────────

    def current(self) -> dict[str, Any]:
        """The last run that was begun here, or nothing."""
        try:
            return dict(json.loads((self.state / "current.json").read_text(encoding="utf-8")))
        except (OSError, ValueError):
            return {}

    def begin(self, protocol: StudyProtocol, *, anew: bool) -> tuple[str, bool]:
        """The run to go on with, or a new one; and whether it is gone on with.

        A paused run of another `federation.toml` or version is not lost in passing: it is named.
        """
        before, own = self.current(), protocol_hash(protocol)
        if before.get("state") == "open" and not anew:
            if before.get("protocol") != own:
                raise OtherProtocol(
                    f"run {before['run']} is paused, and federation.toml was changed since",
                    where=str(self.folder),
                    fix="put the old federation.toml back; or give that run up with `run --abort`",
                )
            if before.get("version") != __version__:
                raise OtherProtocol(
                    f"run {before['run']} is paused, and tripheno {before.get('version')} began it",
                    where=str(self.folder),
                    fix="finish it with that version; or give it up with `run --abort`",
                )
            return str(before["run"]), True
        number = int(before.get("number", 0)) + 1
        run = f"{own[:12]}-{number}"
        self._note({
            "run": run, "number": number, "protocol": own, "state": "open", "version": __version__,
        })  # fmt: skip
        return run, False

    def write_to(self, folder: Path) -> None:
        """Remember where the current run writes its results, for `tripheno status`."""
        self._note({**self.current(), "folder": str(folder.resolve())})

    def close(self, state: str) -> None:
        """The current run is over: finished or given up."""
        self._note({**self.current(), "state": state})

    def _note(self, current: dict[str, Any]) -> None:
        write_whole(self.state / "current.json", json.dumps(current).encode())

    def run_folder(self, run: str) -> Path:
        """What the coordinator keeps of a run."""
        return self.state / "runs" / run

    def store(self, run: str) -> RunStore:
        """How often the run was attempted; the coordinator keeps no state of the study."""
        return RunStore(self.run_folder(run))

    def await_(self, run: str, awaited: Awaited | None) -> None:
        """Write down who is awaited, for `tripheno status`."""
        path = self.run_folder(run) / "awaited.json"
        if awaited is None:
            path.unlink(missing_ok=True)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            temporary = path.with_suffix(".part")
            temporary.write_text(json.dumps(asdict(awaited)), encoding="utf-8")
            temporary.replace(path)

    def awaited(self, run: str) -> Awaited | None:
        """Who is awaited, since when."""
        try:
            saved = json.loads((self.run_folder(run) / "awaited.json").read_text(encoding="utf-8"))
            return Awaited(tuple(saved["hospitals"]), saved["step"], saved["since"], saved["why"])
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def last_head(self, run: str, hospital: str) -> Head | None:
        """The last head of a hospital's audit log that was kept."""
        path = self.run_folder(run) / "heads" / f"{hospital}.json"
        return read_head(path.read_text(encoding="utf-8")) if path.is_file() else None

    def keep_head(self, run: str, hospital: str, head: Head) -> None:
        """The coordinator's copy of a hospital's last audit head."""
        folder = self.run_folder(run) / "heads"
        folder.mkdir(parents=True, exist_ok=True)
        write_text(folder / f"{hospital}.json", json.dumps(head.to_dict(), indent=2) + "\n")


class HospitalHome:
    """A hospital's part of a federation."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.machine = Machine(site.state / "engine")

    @property
    def kit(self) -> Kit:
        """The certificate and key of this hospital."""
        kit = self.machine.kit(self.site.name)
        if not kit.ready:
            raise NoKit(
                "this hospital has no certificate", where=self.site.name,
                fix="tripheno cert request, have it approved, tripheno cert install",
            )  # fmt: skip
        return kit

    def store(self, run: str, every: int = 10) -> RunStore:
        """Checkpoints of shared and own state."""
        folder = self.site.run_folder(run)
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        os.chmod(self.site.state, 0o700)
        return RunStore(folder, every)

    def secret(self, study: str) -> bytes:
        """The secret behind this hospital's tokens in a study: made once, kept, backed up."""
        path = self.site.state / "secrets" / f"{study}.key"
        if not path.is_file():
            write_whole(path, os.urandom(32))
            os.chmod(path.parent, 0o700)
        return path.read_bytes()
