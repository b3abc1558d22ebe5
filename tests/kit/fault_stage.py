"""A study at work on separate processes, to be disturbed; and what it finds undisturbed."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psutil

from kit.federation_processes import (
    FederationOnDisk,
    descendants,
    ended,
    factors,
    wait_until,
)
from tripheno.cli.live import phase_of
from tripheno.progress import read_status
from tripheno.solver.tournament import FINAL

ITERATIONS = 120
MODEL = {"rank": "4", "max_iter": str(ITERATIONS), "seed": "3", "tol": "1e-15"}
WORKER, AGENT, SERVER = "worker_process", "client_train", "server_train"
SECONDS_TO_FINISH = 600.0
HOLDER = "harbour"  # it stops before a step, and so does the study
AXES, EARLY, LATER, FIT = "people/", "starts/7/", "starts/11/", "starts/31/"
EVIDENCE, RELEASE = "resamples/4/", ("end", "result", "labels", "audit-head/last")


def federation_for_faults(
    folder: Path, before: Mapping[str, Sequence[str]] | None = None, **more: Any
) -> FederationOnDisk:
    """A small study that keeps its state often and waits long enough for whoever was lost."""
    operation = {"round_seconds": 300, "checkpoint_every": 5}
    tables = "[evidence]\nresamples = 3\n[budgets]\nmax_runs = 1000\n"  # a run for every fault
    words = dict(before or {})
    held = f"PYTHONPATH={Path(__file__).parent / 'held'}", f"HOLD={folder}"
    words[HOLDER] = [*words.get(HOLDER, ()), "env", *held]
    made = FederationOnDisk(
        folder, MODEL, operation, method="exact", more=tables, before=words,
        simulated=("--resamples", "3"), **more,
    )  # fmt: skip
    made.prepare()
    return made


def undisturbed_factors(federation: FederationOnDisk, folder: Path) -> dict[str, list[list[float]]]:
    """What a simulation of the same study finds."""
    federation.simulate(folder / "run", folder)
    return factors(folder / "run")


class Stage:
    """A federation at work, with everybody within reach."""

    def __init__(self, federation: FederationOnDisk, out: Path, stack: ExitStack) -> None:
        self.federation, self.out, self._stack = federation, out, stack
        self._hold, self._held = federation.folder / "hold", federation.folder / "held"
        self._hold_before("identity")  # the first of all: nothing is missed
        self.start_all()

    def start_all(self) -> None:
        """The server, every hospital and the run."""
        self.server = self.enter(self.federation.serve())
        self.hospitals = {n: self.enter(self.federation.join(n)) for n in self.federation.names}
        self.run()

    def run(self) -> None:
        """The coordinator's `run`, from the beginning or from where it stopped."""
        self.running = self.enter(self.federation.run(self.out))

    def enter(self, process: subprocess.Popen[bytes]) -> subprocess.Popen[bytes]:
        """End a process with the test."""
        self._stack.enter_context(ended(process))
        return process

    def part(self, process: subprocess.Popen[bytes], word: str) -> psutil.Process:
        """A process of the engine below one of ours: it may just be starting again."""
        found: list[psutil.Process] = []

        def there() -> bool:
            found[:] = descendants(process, word)
            return bool(found)

        wait_until(word, there, SECONDS_TO_FINISH)
        return found[0]

    def family(self, process: subprocess.Popen[bytes]) -> list[psutil.Process]:
        """A process of ours and all it started."""
        own = psutil.Process(process.pid)
        return [own, *own.children(recursive=True)]

    def iteration(self) -> int:
        """How far the study is, as the run says: iterations of the tournament and of the fit."""
        status = read_status(self.out) or {}
        return _far(str(status.get("stage")), int(status.get("iteration") or 0))

    def wait_for(self, step: str) -> int:
        """Let the study go on to a step and stand there; how far it is."""
        self._hold_before(step)

        def there() -> bool:
            assert self.running.poll() is None, self.federation.said("run")
            return self._held.is_file() and self._held.read_text().startswith(step)

        wait_until(step, there, SECONDS_TO_FINISH)
        return _far(*phase_of(self._held.read_text()))

    def _hold_before(self, step: str) -> None:
        self._held.unlink(missing_ok=True)
        new = self._hold.with_suffix(".new")
        new.write_text(step, encoding="utf-8")
        new.replace(self._hold)

    def go_on(self) -> None:
        """Let the study go on to its end."""
        self._hold.unlink(missing_ok=True)

    def wait_for_more(self, far: int) -> None:
        """Until the study is further than that, or over before anybody saw it there."""
        self.go_on()

        def there() -> bool:
            return self.iteration() > far or self.running.poll() is not None

        wait_until(f"further than {far}", there, SECONDS_TO_FINISH)

    def finish(self) -> dict[str, list[list[float]]]:
        """What the study found in the end."""
        self.go_on()
        code = self.running.wait(timeout=SECONDS_TO_FINISH)
        assert code == 0, self.federation.said("run")
        return factors(self.out)


def _far(phase: str, iteration: int) -> int:
    before = {"fit": FINAL, "prevalence": ITERATIONS, "evidence": ITERATIONS, "release": ITERATIONS}
    return iteration + before.get(phase, 0)
