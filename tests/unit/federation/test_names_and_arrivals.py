"""Small parts that run in the engine's own processes."""

from __future__ import annotations

import json
import select
import socket
import time
from threading import Event, Thread
from types import SimpleNamespace

import pytest
from nvflare.apis.event_type import EventType
from nvflare.apis.fl_constant import FLContextKey
from nvflare.apis.fl_exception import NotAuthenticated
from nvflare.private.defs import ClientType

from tripheno.federation.job import Arrivals
from tripheno.federation.line import JOB_IS_GONE, EngineLine, EngineSettings, Request
from tripheno.federation.name_guard import HEARTBEATS_TO_MISS, NameGuard, alive
from tripheno.federation.relay import RelayServer, connect_to_relay, frame
from tripheno.federation.supervision import SECONDS_BETWEEN_HEARTBEATS


def registering(name, holders, kind=ClientType.REGULAR):
    """What the engine hands over when somebody registers."""
    peer = SimpleNamespace(get_identity_name=lambda: name)
    engine = SimpleNamespace(client_manager=SimpleNamespace(name_to_clients=holders))
    return SimpleNamespace(
        get_prop=lambda key: kind if key == FLContextKey.CLIENT_TYPE else None,
        get_peer_context=lambda: peer, get_engine=lambda: engine,
    )  # fmt: skip


def test_a_name_whose_holder_was_heard_lately_is_refused():
    guard, now = NameGuard(), time.time()
    young = {"north": SimpleNamespace(last_connect_time=now)}
    old = {"north": SimpleNamespace(last_connect_time=now - 10_000)}
    heard = EventType.CLIENT_REGISTER_RECEIVED
    with pytest.raises(NotAuthenticated, match="north"):
        guard.handle_event(heard, registering("north", young))
    guard.handle_event(heard, registering("north", old))
    guard.handle_event(heard, registering("south", young))
    guard.handle_event(heard, registering("north", young, kind="admin"))
    guard.handle_event(EventType.START_RUN, registering("north", young))


def test_a_heartbeat_is_missed_after_as_many_as_we_say():
    patience = HEARTBEATS_TO_MISS * SECONDS_BETWEEN_HEARTBEATS
    assert alive(0.0, patience - 0.1)
    assert not alive(0.0, patience)


def test_every_answer_is_timed_under_its_hospital_s_name():
    arrived = Arrivals()
    assert arrived.note(SimpleNamespace(target_name="north.relay"), b"bytes") == b"bytes"
    assert set(arrived.seconds) == {"north"}
    assert arrived.seconds["north"] >= 0.0


def killed_while_it_connects(workspace):
    """A job's process that goes before it has answered the first word."""
    note = json.loads((workspace / "local" / "relay.json").read_text())
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(note["address"])
        assert select.select([line], [], [], 60.0)[0]


def test_a_job_killed_while_it_connects_keeps_no_other_one_out(tmp_path):
    with RelayServer(tmp_path, lambda step, data: data):
        for _ in range(3):
            killed_while_it_connects(tmp_path)
        with connect_to_relay(tmp_path) as line:
            line.send_bytes(frame("1:1", b"words"))
            assert line.poll(60.0)
            assert line.recv_bytes()[1:] == b"words"


def test_a_job_that_ended_before_it_said_a_word_costs_no_other_one(tmp_path):
    answers = {"sizes": {"harbour": 0}, "failures": {}, "seconds": {}}
    connected = Event()

    def two_jobs():
        connect_to_relay(tmp_path).close()
        with connect_to_relay(tmp_path) as line:
            ready = {"job": "two", "hospitals": ["harbour"]}
            line.send_bytes(frame("ready", json.dumps(ready).encode()))
            connected.set()
            for _ in ("greeting", "step"):
                line.recv_bytes()
                line.send_bytes(frame(json.dumps(answers), b""))

    settings = EngineSettings(tmp_path, tmp_path / "lead", tmp_path / "job", 60.0)
    with EngineLine(("harbour",), settings) as line:
        Thread(target=two_jobs, daemon=True).start()
        assert connected.wait(60.0)
        found = line.ask(Request("1:1", b"", time.monotonic() + 60.0, time.time()))
    assert found == ({"harbour": b""}, {})


def test_a_job_that_ends_in_a_step_is_told_in_words_and_not_as_an_exception(tmp_path):
    answers = {"sizes": {"harbour": 0}, "failures": {}, "seconds": {}}

    def short_lived_job():
        with connect_to_relay(tmp_path) as line:
            ready = {"job": "one", "hospitals": ["harbour"]}
            line.send_bytes(frame("ready", json.dumps(ready).encode()))
            line.recv_bytes()  # a greeting, which it answers
            line.send_bytes(frame(json.dumps(answers), b""))
            line.recv_bytes()  # the step, which it does not live to answer

    settings = EngineSettings(tmp_path, tmp_path / "lead", tmp_path / "job", 60.0)
    with EngineLine(("harbour",), settings) as line:
        Thread(target=short_lived_job, daemon=True).start()
        found = line.ask(Request("1:1", b"", time.monotonic() + 60.0, time.time()))
    assert found == ({}, {"harbour": JOB_IS_GONE})
    assert "log.jsonl" in JOB_IS_GONE
