"""A study at work on separate processes, to be disturbed; and what it finds undisturbed."""

from __future__ import annotations

import subprocess
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
from tripheno.progress import read_status

ITERATIONS = 120
MODEL = {"rank": "4", "max_iter": str(ITERATIONS), "seed": "3", "tol": "1e-15"}
WORKER, AGENT, SERVER = "worker_process", "client_train", "server_train"
SECONDS_TO_FINISH = 300.0
PHASES = (
    "greeting", "keys", "audit heads", "axes", "tournament", "fit", "prevalence", "evidence",
    "release",
)  # fmt: skip


def federation_for_faults(folder: Path, **more: Any) -> FederationOnDisk:
    """A small study that keeps its state often and waits long enough for whoever was lost."""
    operation = {"round_seconds": 150, "checkpoint_every": 5}
    tables = "[evidence]\nresamples = 3\n[budgets]\nmax_runs = 1000\n"  # a run for every fault
    made = FederationOnDisk(
        folder, MODEL, operation, method="exact", more=tables,
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
        """A process of the engine below one of ours."""
        return descendants(process, word)[0]

    def family(self, process: subprocess.Popen[bytes]) -> list[psutil.Process]:
        """A process of ours and all it started."""
        own = psutil.Process(process.pid)
        return [own, *own.children(recursive=True)]

    def iteration(self) -> int:
        """How far the study is."""
        status = read_status(self.out) or {}
        return int(status.get("iteration") or 0)

    def wait_for(self, iteration: int) -> None:
        """Until the tournament is so far, or the study further than that."""
        later = PHASES[PHASES.index("fit") :]

        def there() -> bool:
            assert self.running.poll() in (None, 0), self.federation.said("run")
            status = read_status(self.out) or {}
            return int(status.get("iteration") or 0) >= iteration or status.get("stage") in later

        wait_until(f"iteration {iteration}", there, 150)

    def wait_for_new_keys(self) -> None:
        """Until the study has noticed a loss and is at work again."""
        said = "going on under new keys"
        wait_until(said, lambda: said in self.federation.said("run"), 150)
        self.wait_for(1)

    def wait_for_phase(self, phase: str) -> None:
        """Until the study is in this phase, or in a later one where it was too short to be seen."""
        wanted = PHASES[PHASES.index(phase) :]
        if phase == PHASES[-1]:  # after it the logs are closed, in a phase that there was before
            self.wait_for_phase(PHASES[-2])
            wanted = (phase, "audit heads")

        def there() -> bool:
            assert self.running.poll() in (None, 0), self.federation.said("run")
            return str((read_status(self.out) or {}).get("stage")) in wanted

        wait_until(phase, there, 150)

    def finish(self) -> dict[str, list[list[float]]]:
        """What the study found in the end."""
        code = self.running.wait(timeout=SECONDS_TO_FINISH)
        assert code == 0, self.federation.said("run")
        return factors(self.out)
