"""Whatever is lost in the middle of a study, and however: it ends with the same factors."""

import json
import signal
import subprocess
import time
from contextlib import ExitStack, contextmanager, suppress

import psutil
import pytest

from kit.fault_stage import (
    AGENT,
    AXES,
    EARLY,
    EVIDENCE,
    FIT,
    LATER,
    RELEASE,
    SECONDS_TO_FINISH,
    SERVER,
    WORKER,
    Stage,
    federation_for_faults,
    undisturbed_factors,
)
from kit.federation_processes import command, kill
from kit.link import linked
from kit.networks import HOST, two_networks
from kit.requirements import require, tool

pytestmark = pytest.mark.verify


@pytest.fixture(scope="module")
def federation(tmp_path_factory):
    return federation_for_faults(tmp_path_factory.mktemp("faults"))


@pytest.fixture(scope="module")
def undisturbed(federation, tmp_path_factory):
    return undisturbed_factors(federation, tmp_path_factory.mktemp("undisturbed"))


@pytest.fixture
def stage(federation, tmp_path):
    with ExitStack() as stack:
        yield Stage(federation, tmp_path / "run", stack)


@pytest.fixture
def costs(record_property):
    """Seconds from a fault until the study is further than it was, for the table of a report."""

    @contextmanager
    def measured(stage, at):
        began = time.monotonic()
        yield
        stage.wait_for_more(at + 1)
        record_property("seconds to go on", round(time.monotonic() - began, 1))

    return measured


def lose(stage, who):
    """Kill a process, and start again what does not start again by itself."""
    if who == "a hospital":
        kill(stage.hospitals["lakeside"])
        stage.hospitals["lakeside"].wait()
        stage.hospitals["lakeside"] = stage.enter(stage.federation.join("lakeside"))
    elif who == "the run":
        kill(stage.running)
        stage.running.wait()
        stage.run()
    elif who == "its engine":
        kill(stage.part(stage.hospitals["lakeside"], WORKER))
    else:
        kill(stage.part(stage.server, SERVER))


@pytest.mark.parametrize("who", ["a hospital", "its engine", "the server", "the run"])
def test_a_process_killed_in_every_phase_of_a_study_costs_no_factor(
    stage, undisturbed, record_property, who
):
    steps = (AXES, LATER, FIT, EVIDENCE, *RELEASE)
    stage.wait_for(steps[0])
    for step, following in zip(steps, (*steps[1:], None), strict=True):
        began = time.monotonic()
        lose(stage, who)
        if following is None:
            found = stage.finish()
        else:
            stage.wait_for(following)  # through all that was lost, and on to there
        record_property(f"seconds after {step}", round(time.monotonic() - began, 1))
    assert found == undisturbed


def test_a_flipped_byte_in_a_checkpoint_is_seen_and_costs_no_factor(stage, undisturbed, costs):
    at = stage.wait_for(FIT)
    with costs(stage, at):
        kill(stage.hospitals["lakeside"])
        stage.hospitals["lakeside"].wait()
        kept = stage.federation.site("lakeside") / "state" / "runs"
        newest = max(p for p in kept.rglob("*.state") if p.stem.isdigit())
        data = bytearray(newest.read_bytes())
        data[len(data) // 2] ^= 1
        newest.write_bytes(data)
        stage.enter(stage.federation.join("lakeside"))
    assert stage.finish() == undisturbed


@pytest.mark.parametrize("word", [WORKER, AGENT])
def test_a_killed_process_of_a_hospitals_engine_costs_no_factor(stage, undisturbed, costs, word):
    at = stage.wait_for(EARLY)
    with costs(stage, at):
        kill(stage.part(stage.hospitals["northfield"], word))
    assert stage.finish() == undisturbed


def test_an_interrupted_run_is_paused_within_seconds_and_goes_on(stage, undisturbed, costs):
    at = stage.wait_for(LATER)
    with costs(stage, at):
        stage.running.send_signal(signal.SIGINT)
        assert stage.running.wait(timeout=SECONDS_TO_FINISH) == 130
        found = command("status", "--folder", stage.federation.coordinator)
        assert found["state"] == "open"
        stage.run()
    assert stage.finish() == undisturbed


def test_a_hospital_that_stands_still_for_twenty_seconds_is_waited_for(stage, undisturbed, costs):
    at = stage.wait_for(EARLY)
    with costs(stage, at):
        stopped = stage.family(stage.hospitals["harbour"])
        for process in stopped:
            process.suspend()
        stage.go_on()
        time.sleep(20)
        assert stage.iteration() <= at + 1
        awaited = command("status", "--folder", stage.federation.coordinator)
        assert "harbour" in awaited["awaited"]
        for process in stopped:
            process.resume()
    assert stage.finish() == undisturbed


@pytest.mark.parametrize("fault", ["silence", "refuse"])
def test_a_link_that_is_cut_and_mended_costs_no_factor(
    federation, undisturbed, costs, tmp_path, fault
):
    with ExitStack() as stack:
        link = stack.enter_context(linked(federation.site("lakeside")))
        stage = Stage(federation, tmp_path / "run", stack)
        at = stage.wait_for(EARLY)
        with costs(stage, at):
            getattr(link, fault)()
            stage.go_on()
            time.sleep(20)
            assert stage.iteration() <= at + 1
            link.mend()
        assert stage.finish() == undisturbed


def test_a_cable_pulled_out_and_plugged_in_again_costs_no_factor(undisturbed, costs, tmp_path):
    with ExitStack() as stack:
        cable = stack.enter_context(two_networks())
        before = dict.fromkeys(("serve", "run", "northfield", "harbour"), cable.words(cable.here))
        before["lakeside"] = cable.words(cable.there)
        federation = federation_for_faults(tmp_path / "faults", host=HOST, before=before)
        stage = Stage(federation, tmp_path / "run", stack)
        at = stage.wait_for(EARLY)
        with costs(stage, at):
            cable.silence()
            stage.go_on()
            time.sleep(20)
            assert stage.iteration() <= at + 1
            cable.mend()
        assert stage.finish() == undisturbed
    told = (federation.site("lakeside") / "state" / "log.jsonl").read_text().splitlines()
    lines = [one for one in map(json.loads, told) if one["event"] == "line"]
    assert [one["connected"] for one in lines] == [1, 0, 1]


def test_everything_killed_at_once_goes_on_from_disk(stage, undisturbed, costs):
    at = stage.wait_for(LATER)
    with costs(stage, at):
        everyone = [stage.running, stage.server, *stage.hospitals.values()]
        engine = [one for process in everyone for one in stage.family(process)[1:]]
        for process in everyone:
            kill(process)
        for process in everyone:
            process.wait()
        assert psutil.wait_procs(engine, timeout=SECONDS_TO_FINISH)[1] == []
        stage.start_all()
    assert stage.finish() == undisturbed


@contextmanager
def small_disk(folder):
    """A file system of its own with little room; yields how to fill the rest of it."""
    folder.mkdir(parents=True, exist_ok=True)
    mount = [str(tool("mount")), "-t", "tmpfs", "-o", "size=2m", "none", str(folder)]
    done = subprocess.run(mount, capture_output=True, check=False)
    require(done.returncode == 0, "only root may mount a small disk")

    def fill():
        with (folder / "filler").open("wb", buffering=0) as stream, suppress(OSError):
            while True:
                stream.write(bytes(4096))
        return folder / "filler"

    try:
        yield fill
    finally:
        subprocess.run([str(tool("umount")), "--lazy", str(folder)], check=True)


@pytest.mark.parametrize("whose", ["hospital", "coordinator"])
def test_a_full_disk_is_a_clear_error_and_the_run_goes_on_when_there_is_room(
    federation, undisturbed, costs, tmp_path, whose
):
    place = {"hospital": federation.site("harbour"), "coordinator": federation.coordinator}[whose]
    with small_disk(place / "state" / "runs") as fill, ExitStack() as stack:
        stage = Stage(federation, tmp_path / "run", stack)
        at = stage.wait_for(EARLY)
        with costs(stage, at):
            filler = fill()
            stage.go_on()
            if whose == "coordinator":  # a run under way needs no room there, a new attempt does
                kill(stage.running)
                stage.running.wait()
                stage.run()
            assert stage.running.wait(timeout=SECONDS_TO_FINISH) == 1
            said = federation.said("run").rpartition("TRIP-E102")[2]
            assert ("harbour" in said) == (whose == "hospital")
            filler.unlink()
            stage.run()
        assert stage.finish() == undisturbed
        assert "going on" in federation.said("run").rpartition("TRIP-E102")[2]


def test_a_hospital_that_stays_away_ends_the_run_in_its_time(federation, tmp_path):
    text = (federation.coordinator / "federation.toml").read_text()
    (federation.coordinator / "federation.toml").write_text(
        text.replace("round_seconds = 300", "round_seconds = 40")
    )
    with ExitStack() as stack:
        stage = Stage(federation, tmp_path / "run", stack)
        stage.wait_for(AXES)
        kill(stage.hospitals["lakeside"])
        stage.go_on()
        assert stage.running.wait(timeout=SECONDS_TO_FINISH) == 6
        assert "TRIP-E600" in federation.said("run")
    (federation.coordinator / "federation.toml").write_text(text)
    state = json.loads((federation.coordinator / "state" / "current.json").read_text())
    assert state["state"] == "open"
