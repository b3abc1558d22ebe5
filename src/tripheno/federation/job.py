"""The two objects that the engine's job builds: one at the server, one at each hospital.

They pass bytes on and do nothing else. A hospital's engine is told to build these classes only, and
to accept no code that travels (:mod:`tripheno.federation.hardening`).
"""

from __future__ import annotations

import gc
import json
import time
from contextlib import suppress
from multiprocessing import AuthenticationError
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from nvflare.collab import collab
from nvflare.collab.runtime import dispatch
from nvflare.fuel.f3.streaming.stream_const import (
    STREAM_CHANNEL,
    STREAM_DATA_TOPIC,
    StreamHeaderKey,
)
from nvflare.private.fed.client.admin_commands import AdminCommands

from tripheno.federation.client_train import kind_of
from tripheno.federation.relay import Broken, connect_to_relay, frame, read_frame

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

ROUNDS_BETWEEN_SWEEPS = 5  # the engine's answers hold each other in rings
SECONDS_WARM, SECONDS_BETWEEN_TRIES = 60.0, 0.2
SECONDS_TO_REST = 2.0
SERVER = "server"
COMMANDS = frozenset({"CheckStatusCommand", "AbortCommand", "AbortTaskCommand", "ByeCommand"})


def _workspace() -> Path:
    return Path(collab.fl_ctx.get_workspace().get_root_dir())


def keep_little() -> None:
    """Let the engine forget an answer that has arrived, and sweep up what it leaves in rings.

    It would keep a thread for 65 s for each, in case the sender asks whether it came: 3,600 threads
    after 1,200 rounds of three hospitals. A step that was lost is asked again by us.
    """
    cell = collab.fl_ctx.get_engine().get_cell().core_cell
    cell.add_incoming_request_filter(STREAM_CHANNEL, STREAM_DATA_TOPIC, _forgettable)
    gc.collect()
    gc.freeze()  # what is here now stays: a sweep looks only at what rounds left behind


def _forgettable(message: Any) -> None:
    message.set_header(StreamHeaderKey.RELIABLE, False)


def say_little() -> None:
    """Of an error here the kind leaves: the engine would send its text and its trace, with paths.

    One is enough: `join` was stopped, and the file that says where it listens is not there. And
    nobody is told what other errors there were, or sets what is logged.
    """
    known = AdminCommands.commands
    known[:] = [one for one in known if type(one).__name__ in COMMANDS]
    dispatch.secure_format_exception, dispatch.secure_format_traceback = kind_of, str


class HospitalPost:
    """At a hospital: a step that arrives goes to the process of `tripheno join`, and back."""

    def __init__(self) -> None:
        self._line: Connection[Any, Any] | None = None
        self._lock, self._steps = Lock(), 0

    @collab.init  # type: ignore[untyped-decorator]
    def begin(self) -> None:
        """Before the first step."""
        keep_little()
        say_little()

    @collab.publish  # type: ignore[untyped-decorator]
    def answer(self, step: str, data: bytes) -> bytes:
        """Pass a step on; a `join` that was started again is found again.

        Other hospitals can call this object too: they would put themselves in the server's place.
        """
        if collab.caller != SERVER:
            raise PermissionError
        with self._lock:
            self._steps += 1
            if self._steps % ROUNDS_BETWEEN_SWEEPS == 0:
                gc.collect()
            for attempt in (1, 2):
                try:
                    if self._line is None:
                        self._line = connect_to_relay(_workspace())
                    self._line.send_bytes(frame(step, data))
                    return self._line.recv_bytes()
                except Broken:
                    self._line = None
                    if attempt == 2:
                        raise
            raise EOFError

    @collab.publish  # type: ignore[untyped-decorator]
    def here(self) -> bytes:
        """Whether this process is alive, however long the step in hand takes."""
        return b"here"

    @collab.publish  # type: ignore[untyped-decorator]
    def rest(self) -> bytes:
        """The run is over, the job stays warm: the next step connects anew to whoever is there."""
        if self._lock.acquire(timeout=SECONDS_TO_REST):
            with suppress(*Broken):
                if self._line is not None:
                    self._line.close()
            self._line = None
            self._lock.release()
        return b"resting"


class Arrivals:
    """How long every hospital's answer took, seen from the server."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._asked = time.perf_counter()

    def note(self, call: Any, answer: bytes) -> bytes:
        """The engine hands every answer over as it comes."""
        hospital = str(call.target_name).partition(".")[0]
        self.seconds[hospital] = time.perf_counter() - self._asked
        return answer


class ServerPost:
    """At the server: what `tripheno run` asks goes to every hospital, and all answers back."""

    def __init__(self) -> None:
        self._rounds = 0

    @collab.init  # type: ignore[untyped-decorator]
    def begin(self) -> None:
        """Before the first step."""
        keep_little()

    @collab.main  # type: ignore[untyped-decorator]
    def run(self) -> None:
        """Until `tripheno run` hangs up, and then for the next run while the job is warm."""
        idle_since = time.monotonic()
        while time.monotonic() - idle_since < SECONDS_WARM and not collab.is_aborted:
            before = self._rounds
            with (
                suppress(*Broken, AuthenticationError, ValueError),
                connect_to_relay(_workspace()) as line,
            ):
                self._attend(line)
            if self._rounds > before:
                collab.clients(timeout=SECONDS_TO_REST).rest()
                idle_since = time.monotonic()
            time.sleep(SECONDS_BETWEEN_TRIES)

    def _attend(self, line: Connection[Any, Any]) -> None:
        ready = {"job": collab.fl_ctx.get_job_id(), "hospitals": [c.name for c in collab.clients]}
        with suppress(*Broken):
            line.send_bytes(frame("ready", json.dumps(ready).encode()))
            while True:
                line.send_bytes(self._round(*read_frame(line.recv_bytes())))

    def _round(self, word: str, data: bytes) -> bytes:
        """Seconds and a step, to every hospital; all answers, and how long each took."""
        self._rounds += 1
        if self._rounds % ROUNDS_BETWEEN_SWEEPS == 0:
            gc.collect()
        seconds, _, step = word.partition(" ")
        arrived = Arrivals()
        asked = collab.clients(timeout=float(seconds), process_resp_cb=arrived.note)
        found = asked.answer(step, data) if step else asked.here()
        failures = {name: str(fault)[:300] for name, fault in found.failures.items()}
        answers = {name: part for name, part in found if isinstance(part, bytes)}
        sizes = {name: len(part) for name, part in answers.items()}
        header = {"sizes": sizes, "failures": failures, "seconds": arrived.seconds}
        return frame(json.dumps(header), b"".join(answers.values()))
