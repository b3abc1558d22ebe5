from __future__ import annotations

import json

import pytest

from kit.planted import planted
from tripheno.errors import Diverged
from tripheno.progress import ProgressLog, Status, both, read_status
from tripheno.report.simulated import run_simulation
from tripheno.solver.settings import SolverSettings
from tripheno.study.simulation import Simulation, assemble

HOSPITALS = [{"name": "north", "patients": 7}, {"name": "south"}]


def line(iteration, objective=1.0):
    return {
        "iteration": iteration, "objective": objective, "rmse": None, "primal": None, "dual": None,
        "bytes": 10, "seconds": 0.1,
    }  # fmt: skip


def a_log(folder, **facts):
    return ProgressLog(folder, Status("trip", 3, 100, **facts), HOSPITALS)


def iterations(folder):
    return [
        json.loads(text)["iteration"]
        for text in (folder / "history.jsonl").read_text().splitlines()
    ]


def test_every_line_is_on_the_disk_before_the_next_iteration(tmp_path):
    with a_log(tmp_path / "run") as log:
        for n in (1, 2, 3):
            log.iteration(line(n))
            assert iterations(tmp_path / "run") == list(range(1, n + 1))


def test_another_start_begins_the_history_anew_and_others_beside_it_do_not_enter(tmp_path):
    with a_log(tmp_path) as log:
        log.stage("trip", 2)
        for n in (1, 2, 1):
            log.iteration(line(n))
        log.stage("local")
        log.iteration(line(1), shown=False)
    assert iterations(tmp_path) == [1]
    assert read_status(tmp_path)["start"] == 1


def test_bytes_and_rounds_are_counted_for_each_hospital(tmp_path):
    with a_log(tmp_path) as log:
        for step in ("begin", "fit/1/0/0"):
            for name in ("north", "south"):
                log.listen(step, name, b"12345", b"123")
    status = read_status(tmp_path)
    assert status["rounds"] == 2
    assert status["hospitals"][1] == {
        "name": "south", "bytes_up": 6, "bytes_down": 10, "step": "fit/1/0/0",
    }  # fmt: skip
    assert status["hospitals"][0]["patients"] == 7


def test_a_coordinator_says_who_is_slowest_and_which_iteration_it_is(tmp_path):
    with a_log(tmp_path) as log:
        log.listen("fit/3/0/0", "south", b"12345", b"123")
        log.at(3, {"north": 0.25, "south": 0.5})
    status = read_status(tmp_path)
    assert [one["seconds"] for one in status["hospitals"]] == [0.25, 0.5]
    assert (status["slowest"], status["iteration"], status["rounds"]) == ("south", 3, 1)
    assert status["objective"] is None


def test_an_error_of_ours_is_told_and_any_other_only_by_its_kind(tmp_path):
    with pytest.raises(Diverged), a_log(tmp_path):
        raise Diverged("the factors grew")
    assert read_status(tmp_path)["state"] == "failed"
    assert read_status(tmp_path)["why"].startswith("TRIP-E101 the factors grew")
    with pytest.raises(ValueError, match="secret"), a_log(tmp_path):
        raise ValueError("patient 7 is a secret")
    assert read_status(tmp_path)["why"] == "ValueError"
    with pytest.raises(KeyboardInterrupt), a_log(tmp_path):
        raise KeyboardInterrupt
    assert read_status(tmp_path)["state"] == "interrupted"


def test_a_run_in_progress_has_no_result_of_an_older_one(tmp_path):
    (tmp_path / "run.json").write_text("{}")
    with a_log(tmp_path):
        assert not (tmp_path / "run.json").exists()
        assert read_status(tmp_path)["state"] == "running"


def test_a_broken_status_is_none(tmp_path):
    (tmp_path / "status.json").write_text('{"state": "runn')
    assert read_status(tmp_path) is None
    assert read_status(tmp_path / "nowhere") is None


def test_several_listeners_hear_every_message():
    heard = []
    tell = both(lambda *m: heard.append(m), None, lambda *m: heard.append(m[1]))
    tell("begin", "north", b"", b"")
    assert heard == [("begin", "north", b"", b""), "north"]


def test_a_study_ends_finished_with_the_lines_of_the_start_it_kept(tmp_path):
    settings = SolverSettings(2, "exact", tol=1e-2, starts=2)
    study = Simulation(assemble(planted(0).hospitals), settings, {}, every=True)
    found = run_simulation(study, tmp_path / "run", 0.0)
    status = read_status(tmp_path / "run")
    assert (status["state"], status["stage"]) == ("finished", "the report")
    run = tmp_path / "run" / status["run"]
    assert len(iterations(run)) == found["solutions"]["exact"].iterations
