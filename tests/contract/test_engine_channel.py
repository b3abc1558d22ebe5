"""The engine's channel keeps the contract of every channel: over real processes and mutual TLS."""

import gc
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import replace

import psutil
import pytest
from nvflare.collab.runtime import dispatch
from nvflare.private.fed.client.admin_commands import AdminCommands

from kit.engine_federation import EngineFederation, bring_code
from kit.federation_processes import kill, wait_until
from kit.small_study import seated
from tripheno import __version__
from tripheno.errors import EngineRefused, ForeignJob, NotApproved, OtherProtocol
from tripheno.federation.channel import EngineChannel
from tripheno.federation.job import COMMANDS, say_little
from tripheno.federation.job_files import write_job
from tripheno.federation.line import Request
from tripheno.federation.relay import ADDRESS
from tripheno.federation.session import ServerLogin
from tripheno.federation.transport import Channel, Responder
from tripheno.testing.channel_contract import HOSPITALS, ChannelContract

# the engine leaves the sockets of a login that failed to the garbage collector
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

_made: dict[str, object] = {}


@pytest.fixture(scope="module", autouse=True)
def federation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """One federation for all tests of this file: starting it takes longer than they do."""
    with ExitStack() as stack:
        made = EngineFederation(tmp_path_factory.mktemp("federation"), HOSPITALS)
        stack.enter_context(made.running())
        _made["federation"] = made
        _made["line"], _made["counters"] = stack.enter_context(made.line())
        yield


@pytest.fixture(autouse=True)
def swept() -> Iterator[None]:
    """Leave none of those sockets for another test to be blamed for."""
    yield
    gc.collect()


class TestEngineChannel(ChannelContract):
    def make_channel(self, responders: Mapping[str, Responder]) -> Channel:
        for name, respond in responders.items():
            _made["counters"][name].respond_with(respond)
        return EngineChannel(_made["line"])


def test_the_next_run_finds_the_job_warm():
    line, counters = _made["line"], _made["counters"]
    for counter in counters.values():
        counter.respond_with(lambda step, data: data)
    EngineChannel(line).round("first", b"words")
    jobs = line.jobs
    line.rest()
    found = EngineChannel(line).round("second", b"words")
    assert set(found) == set(HOSPITALS)
    assert line.jobs == jobs
    log = (_made["federation"].folder / "log.jsonl").read_text()
    assert log.count("a job of the engine began") >= len(HOSPITALS) + 1


def test_an_error_in_the_engines_job_leaves_as_its_kind_without_text_or_trace(monkeypatch):
    """Here `join` is away, and the file that says where it listens: the path would be sent."""
    made, line = _made["federation"], _made["line"]
    for counter in _made["counters"].values():
        counter.respond_with(lambda step, data: data)
    EngineChannel(line).round("here", b"words")
    line.rest()
    note = made.kits[HOSPITALS[0]] / "local" / ADDRESS
    away = note.rename(note.with_suffix(".away"))
    now = time.monotonic()
    _, failures = line.ask(Request("away", b"words", now + 60.0, now))
    away.rename(note)
    assert "FileNotFoundError" in failures[HOSPITALS[0]]
    assert str(made.folder) not in failures[HOSPITALS[0]]
    for name in ("secure_format_exception", "secure_format_traceback"):
        monkeypatch.setattr(dispatch, name, None)
    monkeypatch.setattr(AdminCommands, "commands", list(AdminCommands.commands))
    say_little()
    assert {type(one).__name__ for one in AdminCommands.commands} == COMMANDS
    assert dispatch.secure_format_exception(OSError(note)) == "OSError"
    assert dispatch.secure_format_traceback() == ""


def test_a_warm_job_that_lost_a_hospital_is_not_taken():
    line, counters = _made["line"], _made["counters"]
    for counter in counters.values():
        counter.respond_with(lambda step, data: data)
    EngineChannel(line).round("before", b"words")
    jobs = line.jobs
    line.rest()
    family = psutil.Process().children(recursive=True)
    kill(next(one for one in family if any("worker_process" in word for word in one.cmdline())))
    assert set(EngineChannel(line).round("after", b"words")) == set(HOSPITALS)
    assert line.jobs > jobs


def test_a_server_too_busy_to_answer_has_not_lost_the_job_it_starts(monkeypatch):
    line, counters = _made["line"], _made["counters"]
    for counter in counters.values():
        counter.respond_with(lambda step, data: data)
    line.hang_up()
    jobs, looks = line.jobs, []
    look = ServerLogin.over

    def busy(session, job):
        looks.append(job)
        if len(looks) % 2:
            raise EngineRefused("the engine's server refused a request")
        return look(session, job)

    monkeypatch.setattr(ServerLogin, "over", busy)
    assert set(EngineChannel(line).round("at last", b"words")) == set(HOSPITALS)
    assert len(looks) > 1
    assert line.jobs == jobs + 1


@pytest.mark.parametrize("way", ["custom folder", "installed class", "communication settings"])
def test_a_job_that_brings_code_or_names_another_class_is_refused(tmp_path, way):
    made = _made["federation"]
    job = write_job(tmp_path / "job", made.hospitals)
    marker = bring_code(job, way, tmp_path / "ran")
    with ServerLogin(made.lead.workspace) as session:
        try:
            number = session.submit(job)
        except EngineRefused:
            return
        with suppress(ForeignJob):
            wait_until("the end of the job", lambda: session.over(number), 300)
            assert "COMPLETED" not in session.over(number)
    assert not marker.exists()
    assert not list(made.folder.glob("*/kits/**/evil.py"))[1:]  # unpacked at the server alone


def closed(_run, _coordinator):
    """The gate of a hospital whose officer approved nothing."""
    raise NotApproved("there is no approval", where="harbour")


def with_another_study(around):
    around.sit("harbour", protocol=replace(around.protocol, study="another"))
    return around.responder("harbour")


def with_another_version(around):
    answer = around.responder("harbour")
    return lambda step, data: answer(step, data.replace(__version__.encode(), b"9.9.9"))


def without_approval(around):
    around.sit("harbour", gatekeeper=closed)
    return around.responder("harbour")


@pytest.mark.parametrize(
    ("seat", "fault", "words"),
    [
        (with_another_study, OtherProtocol, "federation.toml"),
        (with_another_version, OtherProtocol, "another version"),
        (without_approval, NotApproved, "approv"),
    ],
)
def test_a_hospital_that_does_not_agree_stops_the_study_over_the_engine(
    tmp_path, seat, fault, words
):
    around = seated(tmp_path)
    for name in around.protocol.names:
        _made["counters"][name].respond_with(around.responder(name))
    _made["counters"]["harbour"].respond_with(seat(around))
    with pytest.raises(fault, match=f"harbour.*{words}|{words}.*harbour") as refused:
        around.run(EngineChannel(_made["line"]))
    assert refused.value.exit_code == 4
