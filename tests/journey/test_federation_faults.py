"""Real kills in the middle of a study: it goes on, and ends with the same factors."""

import json
import os
import shutil
import signal
import subprocess
import time
from contextlib import ExitStack
from pathlib import Path

import psutil
import pyarrow.parquet as pq
import pytest

from tripheno.testing.federation_processes import (
    FederationOnDisk,
    command,
    descendants,
    ended,
    kill,
    wait_until,
)

ITERATIONS = 120
MODEL = {"rank": "4", "max_iter": str(ITERATIONS), "seed": "3", "tol": "1e-15"}
WORKER, AGENT, SERVER = "worker_process", "client_train", "server_train"


def factors(folder: Path) -> dict[str, list[list[float]]]:
    found = {}
    for path in sorted((folder / "factors").glob("*.parquet")):
        table = pq.read_table(path)
        columns = [name for name in table.column_names if name.startswith("component_")]
        found[path.stem] = [table[name].to_pylist() for name in columns]
    return found


@pytest.fixture(scope="module")
def federation(tmp_path_factory):
    folder = tmp_path_factory.mktemp("faults")
    operation = {"round_seconds": 150, "checkpoint_every": 5}
    made = FederationOnDisk(folder, MODEL, operation, method="exact")
    made.prepare()
    return made


@pytest.fixture(scope="module")
def undisturbed(federation, tmp_path_factory):
    folder = tmp_path_factory.mktemp("undisturbed")
    sites = [folder / name for name in federation.names]
    for site in sites:
        shutil.copytree(federation.site(site.name) / "events", site)
    command(
        "simulate", *sites, "--out", folder / "run", "--method", "exact", "--rank", "4",
        "--max-iter", ITERATIONS, "--seed", "3", "--tol", "1e-15", "--min-cell", "11",
        "--order", "protocol", "--sums", "secure", "--no-compare",
    )  # fmt: skip
    return factors(folder / "run")


class Stage:
    """A federation at work, with everybody within reach."""

    def __init__(self, federation: FederationOnDisk, out: Path, stack: ExitStack) -> None:
        self.federation, self.out, self._stack = federation, out, stack
        self.server = self.enter(federation.serve())
        self.hospitals = {name: self.enter(federation.join(name)) for name in federation.names}
        self.running = self.enter(federation.run(out))

    def enter(self, process: subprocess.Popen[bytes]) -> subprocess.Popen[bytes]:
        self._stack.enter_context(ended(process))
        return process

    def iteration(self) -> int:
        path = self.out / "history.jsonl"
        return len(path.read_text().splitlines()) if path.exists() else 0

    def wait_for(self, iteration: int) -> None:
        def there() -> bool:
            assert self.running.poll() in (None, 0), self.federation.said("run")
            return self.iteration() >= iteration

        wait_until(f"iteration {iteration}", there, 150)

    def finish(self) -> None:
        assert self.running.wait(timeout=240) == 0, self.federation.said("run")


@pytest.fixture
def stage(federation, tmp_path):
    with ExitStack() as stack:
        yield Stage(federation, tmp_path / "run", stack)


def test_a_killed_worker_and_a_killed_hospital_cost_no_factor(stage, undisturbed):
    stage.wait_for(8)
    kill(descendants(stage.hospitals["harbour"], WORKER)[0])
    stage.wait_for(stage.iteration() + 10)
    lost = stage.hospitals["lakeside"]
    family = psutil.Process(lost.pid).children(recursive=True)
    assert len(family) >= 2  # the agent and a worker
    kill(lost)
    lost.wait()
    stage.enter(stage.federation.join("lakeside"))
    _, orphans = psutil.wait_procs(family, timeout=20)
    assert orphans == []
    stage.finish()
    assert factors(stage.out) == undisturbed
    assert "going on from iteration" in stage.federation.said("run")
    assert (stage.out / "report.html").stat().st_size > 10_000
    name = json.loads((stage.out / "run.json").read_text())["run"]
    for hospital in stage.federation.names:
        log = stage.federation.site(hospital) / "state" / "runs" / name
        wait_until("the last head", (log / "audit.head.json").exists, 20)
        assert command("audit", "verify", log)["ok"]


@pytest.mark.verify
@pytest.mark.parametrize("word", [AGENT, WORKER])
def test_a_killed_process_of_a_hospitals_engine_costs_no_factor(stage, undisturbed, word):
    stage.wait_for(8)
    kill(descendants(stage.hospitals["northfield"], word)[0])
    stage.finish()
    assert factors(stage.out) == undisturbed


@pytest.mark.verify
def test_a_killed_server_is_started_again_and_costs_no_factor(stage, undisturbed):
    stage.wait_for(8)
    kill(descendants(stage.server, SERVER)[0])
    stage.finish()
    assert factors(stage.out) == undisturbed


@pytest.mark.verify
def test_a_killed_run_goes_on_when_it_is_started_again(stage, undisturbed):
    stage.wait_for(12)
    kill(stage.running)
    stage.running.wait()
    stage.running = stage.enter(stage.federation.run(stage.out))
    stage.finish()
    assert factors(stage.out) == undisturbed


@pytest.mark.verify
def test_an_interrupted_run_is_paused_and_goes_on(stage, undisturbed):
    stage.wait_for(12)
    stage.running.send_signal(signal.SIGINT)
    assert stage.running.wait(timeout=60) == 130
    found = command("status", "--folder", stage.federation.coordinator)
    assert found["state"] == "open"
    assert found["last checkpoint"] >= 6
    stage.running = stage.enter(stage.federation.run(stage.out))
    stage.finish()
    assert factors(stage.out) == undisturbed


@pytest.mark.verify
def test_a_hospital_that_stands_still_for_twenty_seconds_is_waited_for(stage, undisturbed):
    stage.wait_for(8)
    stopped = stage.hospitals["harbour"]
    family = [stopped.pid, *(c.pid for c in psutil.Process(stopped.pid).children(recursive=True))]
    for pid in family:
        os.kill(pid, signal.SIGSTOP)
    at = stage.iteration()
    time.sleep(20)
    assert stage.iteration() <= at + 1
    awaited = command("status", "--folder", stage.federation.coordinator)
    assert "harbour" in awaited["awaited"]
    for pid in family:
        os.kill(pid, signal.SIGCONT)
    stage.finish()
    assert factors(stage.out) == undisturbed


@pytest.mark.verify
def test_everything_killed_at_once_goes_on_from_disk(stage, undisturbed):
    stage.wait_for(12)
    everyone = [stage.running, stage.server, *stage.hospitals.values()]
    for process in everyone:
        kill(process)
    for process in everyone:
        process.wait()
    stage.enter(stage.federation.serve())
    for name in stage.federation.names:
        stage.enter(stage.federation.join(name))
    stage.running = stage.enter(stage.federation.run(stage.out))
    stage.finish()
    assert factors(stage.out) == undisturbed


@pytest.mark.verify
def test_a_hospital_that_stays_away_ends_the_run_in_its_time(federation, tmp_path):
    text = (federation.coordinator / "federation.toml").read_text()
    (federation.coordinator / "federation.toml").write_text(
        text.replace("round_seconds = 150", "round_seconds = 40")
    )
    with ExitStack() as stack:
        stage = Stage(federation, tmp_path / "run", stack)
        stage.wait_for(8)
        kill(stage.hospitals["lakeside"])
        began = time.monotonic()
        assert stage.running.wait(timeout=120) == 6
        assert time.monotonic() - began < 80
        assert "TRIP-E600" in federation.said("run")
    (federation.coordinator / "federation.toml").write_text(text)
    state = json.loads((federation.coordinator / "state" / "current.json").read_text())
    assert state["state"] == "open"
