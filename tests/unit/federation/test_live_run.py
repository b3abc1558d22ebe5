"""What a coordinator sees while a study runs, and what `status` says of it."""

import json
import time
from collections import Counter

import pytest
from typer.testing import CliRunner

from tripheno.cli.console import Progress
from tripheno.cli.live import LiveRun
from tripheno.cli.main import app
from tripheno.errors import RunFailed
from tripheno.federation.home import CoordinatorHome, alone
from tripheno.federation.journal import Journal
from tripheno.federation.line import Awaited
from tripheno.progress import ProgressLog, Status, read_status
from tripheno.testing.small_study import protocol, tensors


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
        yield LiveRun(progress, log, Journal(tmp_path / "state"), solver)


@pytest.mark.filterwarnings("ignore::tripheno.errors.NotConverged")
def test_every_iteration_tells_the_round_the_slowest_and_what_is_left(
    table, live, tmp_path, capsys
):
    around = table()
    slow = around.protocol.names[1]
    around.before = lambda name, _step: time.sleep(0.02 if name == slow else 0.0)
    live.channel = channel = around.channel()
    with live.told("run run-1"):
        around.run(channel, watch=live.iteration, moment=live.moment, say=live.stage)
    told = lines(tmp_path / "run" / "history.jsonl")
    assert [one["iteration"] for one in told] == list(range(1, 10))
    # on a busy machine another one may be slower now and then
    assert Counter(one["slowest"] for one in told).most_common(1)[0][0] == slow
    assert told[-1]["seconds_left"] == 0.0
    assert told[0]["most_seconds_left"] >= told[0]["seconds_left"] > 0.0
    assert read_status(tmp_path / "run")["slowest"] == told[-1]["slowest"]
    said = capsys.readouterr().err
    assert "iteration 1 of at most 9, round " in said
    assert f"slowest {slow} " in said
    events = [one["event"] for one in lines(tmp_path / "state" / "log.jsonl")]
    assert events == ["run", "stage", "stage", "finished"]


def test_who_keeps_the_others_waiting_is_said_once_and_their_return_too(live, tmp_path, capsys):
    written = []
    notice = live.awaiting(written.append)
    late = Awaited(("harbour",), "1:iterate/3/0/0", time.time() - 9.0, "no answer")
    for _ in range(3):
        notice(late)
    notice(None)
    notice(Awaited(("harbour",), "1:iterate/3/1/0", time.time()))  # a round like any other
    notice(None)
    assert len(written) == 6
    assert capsys.readouterr().err.count("waiting for harbour since 9 s (no answer)") == 1
    waited, came = lines(tmp_path / "state" / "log.jsonl")
    assert (waited["event"], waited["hospitals"], waited["step"]) == (
        "waiting", ["harbour"], "1:iterate/3/0/0",
    )  # fmt: skip
    assert came["event"] == "answered"


def test_a_failure_is_logged_with_its_code_and_an_accident_only_by_its_kind(live, tmp_path):
    with pytest.raises(RunFailed), live.told("run 1"):
        raise RunFailed("a hospital lost its disk")
    with pytest.raises(ValueError, match="secret"), live.told("run 2"):
        raise ValueError("patient 7 is a secret")
    told = lines(tmp_path / "state" / "log.jsonl")
    assert [one["event"] for one in told] == ["run", "failed", "run", "interrupted"]
    assert told[1]["code"] == RunFailed.code
    assert told[3]["text"] == "ValueError"


def test_status_says_how_far_a_run_is_and_who_is_awaited_since_when(live, tmp_path):
    home = CoordinatorHome(tmp_path / "coordinator")
    run, _ = home.begin(protocol(), anew=False)
    home.write_to(tmp_path / "run")
    home.await_(run, Awaited(("harbour",), "1:iterate/3/0/0", time.time() - 30.0, "no answer"))

    def status():
        words = ["status", "--folder", str(home.folder), "--format", "json"]
        return json.loads(CliRunner().invoke(app, words).stdout)

    found = status()
    assert (found["state"], found["at work"]) == ("open", False)
    assert (found["awaited"], found["why"]) == (["harbour"], "no answer")
    assert found["seconds waited"] >= 30
    assert found["at most"] == protocol().solver.max_iter
    with alone(home.running, "a run"):
        assert status()["at work"]
