"""Real kills in the middle of a study: it goes on, and ends with the same factors."""

import json
from contextlib import ExitStack

import psutil
import pytest

from tripheno.testing.fault_stage import (
    WORKER,
    Stage,
    factors_in,
    federation_for_faults,
    undisturbed_factors,
)
from tripheno.testing.federation_processes import command, kill, wait_until


@pytest.fixture(scope="module")
def federation(tmp_path_factory):
    return federation_for_faults(tmp_path_factory.mktemp("faults"))


@pytest.fixture
def stage(federation, tmp_path):
    with ExitStack() as stack:
        yield Stage(federation, tmp_path / "run", stack)


def test_a_killed_worker_and_a_killed_hospital_cost_no_factor(stage, tmp_path):
    federation = stage.federation
    stage.wait_for(8)
    kill(stage.part(stage.hospitals["harbour"], WORKER))
    stage.wait_for(stage.iteration() + 10)
    lost = stage.hospitals["lakeside"]
    started_by_it = stage.family(lost)[1:]
    assert len(started_by_it) >= 2  # the agent and a worker
    kill(lost)
    lost.wait()
    stage.enter(federation.join("lakeside"))
    _, orphans = psutil.wait_procs(started_by_it, timeout=20)
    assert orphans == []
    assert stage.finish() == undisturbed_factors(federation, tmp_path / "undisturbed")
    assert "going on from iteration" in federation.said("run")
    assert (stage.out / "report.html").stat().st_size > 10_000
    name = json.loads((stage.out / "run.json").read_text())["run"]
    for hospital in federation.names:
        log = federation.site(hospital) / "state" / "runs" / name
        wait_until("the last head", (log / "audit.head.json").exists, 20)
        assert command("audit", "verify", log)["ok"]
        own = federation.site(hospital) / "runs" / name
        assert factors_in(own) == factors_in(stage.out)
