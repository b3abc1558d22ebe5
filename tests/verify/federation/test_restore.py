"""A machine that is lost in the middle of a study comes back from its backup."""

import json
import shutil
from contextlib import ExitStack

import pytest

from kit.fault_stage import (
    FIT,
    LATER,
    SECONDS_TO_FINISH,
    Stage,
    federation_for_faults,
    undisturbed_factors,
)
from kit.federation_processes import kill, wait_until

pytestmark = pytest.mark.verify


@pytest.fixture(scope="module")
def federation(tmp_path_factory):
    return federation_for_faults(tmp_path_factory.mktemp("restored"))


@pytest.fixture(scope="module")
def undisturbed(federation, tmp_path_factory):
    return undisturbed_factors(federation, tmp_path_factory.mktemp("undisturbed"))


@pytest.mark.parametrize("whose", ["coordinator", "harbour"])
def test_a_machine_restored_from_a_backup_ends_in_the_same_factors(
    federation, undisturbed, tmp_path, whose
):
    place, backup = federation.folder / whose, tmp_path / "backup"
    with ExitStack() as stack:
        stage = Stage(federation, tmp_path / "run", stack)
        stage.wait_for(LATER)
        everyone = [stage.running, stage.server, *stage.hospitals.values()]
        for process in everyone:
            kill(process)
            process.wait()
        shutil.copytree(place, backup, symlinks=True)
        shutil.rmtree(place)
        shutil.copytree(backup, place, symlinks=True)
        stage.start_all()
        assert stage.finish() == undisturbed


def test_an_older_backup_of_a_hospital_sets_the_study_back_and_changes_no_factor(
    federation, undisturbed, tmp_path
):
    place, backup = federation.site("lakeside"), tmp_path / "backup"
    with ExitStack() as stack:
        stage = Stage(federation, tmp_path / "run", stack)
        stage.wait_for(LATER)
        shutil.copytree(place / "state" / "runs", backup)
        stage.wait_for(FIT)
        kill(stage.hospitals["lakeside"])
        stage.hospitals["lakeside"].wait()
        shutil.rmtree(place / "state" / "runs")
        shutil.copytree(backup, place / "state" / "runs")
        stage.enter(federation.join("lakeside"))
        assert stage.finish() == undisturbed


def test_an_older_backup_of_the_coordinator_is_named_and_changes_no_factor(
    federation, undisturbed, tmp_path
):
    state, backup = federation.coordinator / "state", tmp_path / "backup"
    with ExitStack() as stack:
        stage = Stage(federation, tmp_path / "run", stack)
        stage.wait_for(LATER)
        kill(stage.running)
        stage.running.wait()
        shutil.copytree(state / "runs", backup)
        run = json.loads((state / "current.json").read_text())["run"]
        made = [federation.site(name) / "state" / "runs" / run for name in federation.names]
        stage.run()
        wait_until(
            "the second attempt",
            lambda: all((place / "attempt").read_text() == "2" for place in made),
            SECONDS_TO_FINISH,
        )
        stage.wait_for("starts/14/")  # the very first step, asked again, would be answered
        kill(stage.running)
        stage.running.wait()
        shutil.rmtree(state / "runs")
        shutil.copytree(backup, state / "runs")
        stage.run()
        assert stage.finish() == undisturbed
        assert "older backup" in federation.said("run")
