"""What a coordinator sees while a study runs, and what `status` says of it."""

import json
import os
import re
import socket
import time
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from typer.testing import CliRunner

from kit.small_study import protocol, tensors
from tripheno.cli import status as running
from tripheno.cli.console import Progress
from tripheno.cli.live import LiveHospital, LiveRun, hospital_now, phase_of
from tripheno.cli.main import app
from tripheno.cli.metrics import metrics_server
from tripheno.errors import PortTaken, RunFailed, Withdrawn
from tripheno.federation.connection import stands
from tripheno.federation.home import CoordinatorHome, alone
from tripheno.federation.journal import Journal
from tripheno.federation.line import Awaited
from tripheno.progress import ProgressLog, Status, read_status
from tripheno.solver.tournament import FINAL


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture
def live(tmp_path):
    solver = protocol().solver
    status = Status(solver.method, solver.n_components, solver.max_iter)
    with (
        ProgressLog(tmp_path / "run", status, [{"name": name} for name in tensors()]) as log,
        Progress() as progress,
    ):
        yield LiveRun(progress, log, Journal(tmp_path / "state"), solver.max_iter)


@pytest.mark.filterwarnings("ignore::tripheno.errors.NotConverged")
def test_the_coordinator_sees_phase_iteration_bytes_and_the_slowest_and_no_objective(
    table, live, tmp_path, capsys
):
    around = table()
    slow = around.protocol.names[1]
    around.before = lambda name, _step: time.sleep(0.08 if name == slow else 0.0)
    live.channel = channel = around.channel()
    channel._listen = live.listen
    with live.announced("run run-1"):
        around.run(channel, step=live.step, say=live.stage)
    status = read_status(tmp_path / "run")
    assert status["slowest"] == slow
    assert status["objective"] is None
    assert not (tmp_path / "run" / "history.jsonl").read_text()
    said = capsys.readouterr().err
    assert re.search(r"iteration \d of at most 9", said)
    assert f"slowest {slow} " in said
    phases = [one["text"] for one in lines(tmp_path / "state" / "log.jsonl")]
    assert phases == [
        "run run-1", "greeting", "keys", "audit heads", "axes", "fit", "prevalence", "evidence",
        "release", "audit heads", "finished",
    ]  # fmt: skip


@pytest.mark.filterwarnings("ignore::tripheno.errors.NotConverged")
def test_a_hospital_sees_its_line_run_phase_and_failure_with_their_times(table, tmp_path):
    around, log = table(), tmp_path / "site" / "log.jsonl"
    live = LiveHospital(Journal(log.parent), log.parent)
    live.line(True)
    live.begun("run-1")
    around.sit("harbour", step=live.step, failed=live.failed, over=lambda _run: live.over())
    around.run()
    live.line(False)
    now = hospital_now(log.parent)
    assert (now["run"], now["phase"], now["connected"]) == ("run-1", "finished", False)
    assert now["last step"] <= now["lost since"]
    live.line(True)
    live.failed(Withdrawn("the approval was taken back", where="harbour"))
    live.failed(ValueError("patient 7 has a secret"))
    told = lines(log)
    assert [one["event"] for one in told if one["event"] != "phase"] == [
        "line", "begun", "line", "line", "withdrawn", "failed",
    ]  # fmt: skip
    assert [one["text"] for one in told if one["event"] == "phase"] == [
        "greeting", "keys", "audit heads", "axes", "fit", "prevalence", "evidence", "release",
        "audit heads",
    ]  # fmt: skip
    assert told[-1]["text"] == "TRIP-E100 ValueError"
    assert "again, after 0 s" in next(one["text"] for one in told[::-1] if one["event"] == "line")
    assert all("time" in one for one in told)


def test_a_line_stands_while_a_process_has_a_connection_to_the_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert not stands(os.getpid(), frozenset({port}))
        with socket.create_connection(("127.0.0.1", port)):
            assert stands(os.getpid(), frozenset({port}))
            assert not stands(os.getpid(), frozenset({port + 1}))
        assert not stands(os.getpid(), frozenset({port}))
    assert not stands(None, frozenset({port}))


@pytest.mark.parametrize(
    ("step", "phase"),
    [
        ("people/few/1", ("axes", 0)),
        ("fit/12/1/0/wider1", ("fit", 12)),
        ("starts/7/0/0", ("tournament", 8)),
        (f"starts/{FINAL + 8}/1/0", ("fit", 9)),
        ("resamples/3/1/0", ("evidence", 4)),
        ("rank-4/half-1/fit/3/0/0", ("rank 4", 3)),
        ("choice/fit/3/0/0", ("fit", 3)),
        ("audit-head/last", ("audit heads", 0)),
    ],
)
def test_a_step_is_told_as_its_phase(step, phase):
    assert phase_of(step) == phase


def test_who_keeps_the_others_waiting_is_said_once_and_their_return_too(live, tmp_path, capsys):
    written = []
    notice = live.awaiting(written.append)
    late = Awaited(("harbour",), "1:30", time.time() - 9.0, "no answer")
    for _ in range(3):
        notice(late)
    notice(None)
    notice(Awaited(("harbour",), "1:31", time.time()))  # a round like any other
    notice(None)
    assert len(written) == 6
    assert capsys.readouterr().err.count("waiting for harbour since 9 s (no answer)") == 1
    waited, came = lines(tmp_path / "state" / "log.jsonl")
    assert (waited["event"], waited["hospitals"], waited["step"]) == (
        "waiting", ["harbour"], "1:30",
    )  # fmt: skip
    assert came["event"] == "answered"


def test_a_failure_is_logged_with_its_code_and_an_accident_only_by_its_kind(live, tmp_path):
    with pytest.raises(RunFailed), live.announced("run 1"):
        raise RunFailed("a hospital lost its disk")
    with pytest.raises(ValueError, match="secret"), live.announced("run 2"):
        raise ValueError("patient 7 is a secret")
    told = lines(tmp_path / "state" / "log.jsonl")
    assert [one["event"] for one in told] == ["run", "failed", "run", "interrupted"]
    assert told[1]["code"] == RunFailed.code
    assert told[3]["text"] == "ValueError"


def test_status_says_how_far_a_run_is_and_who_is_awaited_since_when(live, tmp_path):
    home = CoordinatorHome(tmp_path / "coordinator")
    run, _ = home.begin(protocol(), anew=False)
    home.write_to(tmp_path / "run")
    home.await_(run, Awaited(("harbour",), "1:30", time.time() - 30.0, "no answer"))

    def status():
        words = ["status", "--folder", str(home.folder), "--format", "json"]
        return json.loads(CliRunner().invoke(app, words).stdout)

    with alone(home.running, "a run"):
        found = status()
    assert (found["state"], found["at work"]) == ("open", True)
    assert (found["awaited"], found["why"]) == (["harbour"], "no answer")
    assert found["seconds waited"] >= 30
    assert found["at most"] == protocol().solver.max_iter
    assert found["bytes of the phase"] == 0
    assert found["seconds"] >= 0
    log = Journal(home.run_folder(run))
    log.note("phase", "fit")
    found = status()
    assert (found["at work"], "awaited" in found) == (False, False)
    assert found["why"] == "it was killed, or its machine stopped"
    log.note("failed", "TRIP-E416 the approval was taken back")
    assert status()["why"] == "TRIP-E416 the approval was taken back"


def test_status_in_a_folder_of_no_study_says_so_and_not_that_no_run_was_begun(tmp_path):
    done = CliRunner().invoke(app, ["status", "--folder", str(tmp_path)])
    assert done.exit_code == 2
    assert "no site.toml and no federation.toml is here" in done.stderr
    (tmp_path / "federation.toml").touch()
    done = CliRunner().invoke(app, ["status", "--folder", str(tmp_path)])
    assert done.stdout == "state: no run was begun here\n"


def test_a_program_that_watches_reads_openmetrics_on_this_machine():
    found = {"state": "open", "at work": True, "iteration": 7, "phase": "fit",
             "awaited": ["harbour"], "seconds waited": 12}  # fmt: skip
    with metrics_server(lambda: found, 0) as port:
        with urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
            text, kind = answer.read().decode(), answer.headers["Content-Type"]
        with pytest.raises(HTTPError, match="404") as missing:
            urlopen(f"http://127.0.0.1:{port}/")
        missing.value.close()
        with pytest.raises(PortTaken, match="TRIP-E519"), metrics_server(dict, port):
            pass
    assert kind.startswith("application/openmetrics-text")
    assert text.endswith("# EOF\n")
    assert 'tripheno_phase{state="open",phase="fit"} 1' in text
    assert 'tripheno_awaited{hospital="harbour"} 1' in text
    assert {"tripheno_at_work 1", "tripheno_iteration 7", "tripheno_waited_seconds 12"} <= set(
        text.splitlines()
    )


@pytest.mark.parametrize(
    ("form", "shown"),
    [("text", ["state: open", "state: finished"]),
     ("json", ['{"state": "open"}', '{"state": "finished"}'])],
)  # fmt: skip
def test_a_watched_status_is_shown_again_when_it_changed(tmp_path, monkeypatch, form, shown):
    told = iter([{"state": "open"}, {"state": "open"}, {"state": "finished"}])

    def look(_folder):
        try:
            return next(told)
        except StopIteration:
            raise KeyboardInterrupt from None

    monkeypatch.setattr(running, "_coordinator_status", look)
    monkeypatch.setattr(running, "SECONDS_BETWEEN_LOOKS", 0.0)
    words = ["status", "--folder", str(tmp_path), "--watch", "--format", form]
    assert CliRunner().invoke(app, words).stdout.splitlines() == shown
