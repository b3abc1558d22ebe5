"""The line to a job of the engine: submitted when there is none, then asked through."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Any, Self

from tripheno.errors import BadMessage, EngineRefused, PeerLost
from tripheno.federation.job_files import write_job
from tripheno.federation.relay import Broken, RelaySocket, frame, read_frame

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from tripheno.federation.session import ServerLogin

CALL_SECONDS = 15.0  # of one attempt at a step; a busy hospital is asked again and joins the wait
PING_SECONDS, SECONDS_OF_GRACE = 4.0, 5.0
SECONDS_FOR_A_WARM_JOB = 0.5  # in which one that is left of the run before has connected
JOB_IS_GONE = "the engine's job ended or is stuck; log.jsonl in each machine's state/ says why"
PAUSE = 0.5  # seconds between two looks at who is connected, and between two attempts


@dataclass(frozen=True)
class Awaited:
    """Whom the coordinator waits for, in what, since when (seconds of the wall clock)."""

    hospitals: tuple[str, ...]
    step: str
    since: float
    why: str = ""


Notice = Callable[[Awaited | None], None]


@dataclass(frozen=True)
class EngineSettings:
    """Where the coordinator's own folders are, and how long a step may take."""

    server: Path  # workspace of the engine's server
    lead: Path  # workspace of the coordinator's login
    job: Path  # where the job's files are written
    round_seconds: float


@dataclass(frozen=True)
class Request:
    """One step on its way: what is asked, and until when (monotonic seconds)."""

    step: str
    broadcast: bytes
    deadline: float
    since: float

    @property
    def left(self) -> float:
        """Seconds that are left for it."""
        return self.deadline - time.monotonic()


class EngineLine:
    """A login, a job and the socket to it. Use it as a block."""

    def __init__(
        self,
        hospitals: Sequence[str],
        engine_settings: EngineSettings,
        notice: Notice | None = None,
    ) -> None:
        self.hospitals, self.engine_settings = tuple(hospitals), engine_settings
        self.notice = notice or (lambda _awaited: None)
        self.jobs = 0  # submitted so far
        self.arrived: dict[str, float] = {}  # hospital → seconds that its last answer took
        self._relay_socket = RelaySocket(engine_settings.server)
        self._lines: SimpleQueue[Connection[Any, Any]] = SimpleQueue()
        self._line: Connection[Any, Any] | None = None
        self._session: ServerLogin | None = None
        self._job = ""
        self._server_began = ""  # jobs end with the server that has them
        self._given_up: set[str] = set()  # jobs that may connect once more and are not let in
        self._asking = False  # a step is under way
        Thread(target=self._accept_jobs, name="tripheno-jobs", daemon=True).start()

    def _accept_jobs(self) -> None:
        with suppress(OSError):  # closed
            while True:
                self._lines.put(self._relay_socket.accept())

    def ask(self, request: Request) -> tuple[dict[str, bytes], dict[str, str]]:
        """Every hospital's answer to a step, and why some did not come."""
        try:
            line = self._ready_line(request)
            seconds = min(max(request.left, 1.0), CALL_SECONDS)
            return self._call(line, seconds, request.step, request.broadcast)
        except Broken:
            self.hang_up()
            return {}, dict.fromkeys(self.hospitals, JOB_IS_GONE)
        except EngineRefused as fault:
            self._log_out()
            return {}, dict.fromkeys(self.hospitals, fault.what)

    def _call(
        self, line: Connection[Any, Any], seconds: float, step: str, data: bytes
    ) -> tuple[dict[str, bytes], dict[str, str]]:
        self._asking = True
        line.send_bytes(frame(f"{seconds:.3f} {step}", data))
        if not line.poll(seconds + SECONDS_OF_GRACE):
            raise EOFError
        head, body = read_frame(line.recv_bytes())
        self._asking = False
        header = json.loads(head)
        answers, at = {}, 0
        for name, size in header["sizes"].items():
            answers[name] = body[at : at + size]
            at += size
        if set(answers) - set(self.hospitals) or at != len(body):
            raise BadMessage("answers of hospitals that were not asked", where=step)
        self.arrived = {name: float(seconds) for name, seconds in header["seconds"].items()}
        return answers, dict(header["failures"])

    def wait(self, request: Request, late: Sequence[str], why: str) -> None:
        """A moment before the next attempt, or the end of the time for a step."""
        self.notice(Awaited(tuple(late), request.step, request.since, why))
        time.sleep(min(PAUSE, max(request.left, 0.0)))
        if request.left <= 0.0:
            self.hang_up()
            raise PeerLost(
                f"no answer within {self.engine_settings.round_seconds:g} s",
                where=f"{', '.join(late)}, step {request.step}",
                why=why,
                fix="once it is back, the same `tripheno run` goes on from the last checkpoint",
            )

    # ── the job and the line to it ────────────────────────────────────────────────────────────

    def _ready_line(self, request: Request) -> Connection[Any, Any]:
        """The line to a running job; submits one when there is none and all members are there."""
        patience = SECONDS_FOR_A_WARM_JOB
        while True:
            if self._line is not None and self._lines.empty():
                return self._line
            with suppress(Empty):
                while True:
                    self._take(self._lines.get(timeout=patience))
                    patience = 0.0
            if self._line is not None:
                return self._line
            session = self._logged_in()
            why = session.over(self._job) if self._job else ""
            if why or not self._job:
                self._submit(request)
            self.wait(request, self.hospitals, why or "the engine's job has not begun")
            patience = PAUSE

    def _take(self, line: Connection[Any, Any]) -> None:
        """A job connected: ours, or one that is warm and has every member."""
        job, everybody = "", set(self.hospitals)
        try:
            if not line.poll(SECONDS_OF_GRACE):
                raise EOFError
            ready = json.loads(read_frame(line.recv_bytes())[1])
            job, there = str(ready["job"]), set(ready["hospitals"])
            welcome = there == everybody and job not in self._given_up
            if welcome and job != self._job:
                free = self._line is None
                welcome = free and set(self._call(line, PING_SECONDS, "", b"")[0]) == everybody
        except Broken:  # it ended meanwhile; another one may be on its way
            welcome = False
        if not welcome:
            self._given_up.add(job)
            line.close()
            return
        before, self._line, self._job = self._job, line, job
        if before not in {"", job}:
            self._given_up.add(before)
            self._logged_in().abort(before)  # one is enough

    def _submit(self, request: Request) -> None:
        self._gather(request)
        self._job = self._logged_in().submit(write_job(self.engine_settings.job, self.hospitals))
        self.jobs += 1

    def _gather(self, request: Request) -> None:
        """Wait until every member's agent is connected."""
        while True:
            here = self._logged_in().connected()
            missing = [name for name in self.hospitals if name not in here]
            if not missing:
                return
            self.wait(request, missing, "not connected")

    def give_up_lost_job(self, late: Sequence[str]) -> None:
        """After a failure: leave a job that is over, or that lost a worker of those who are late.

        A worker that answers a mere greeting is only busy, and is asked the same step again.
        """
        try:
            if self._job and self._logged_in().over(self._job):
                self.hang_up()
            elif self._line is not None:
                here, _ = self._call(self._line, PING_SECONDS, "", b"")
                if not set(late) <= set(here):
                    self.hang_up()
        except Broken:
            self.hang_up()
        except EngineRefused:
            self._log_out()

    def _logged_in(self) -> ServerLogin:
        """The login; a job that was submitted to an earlier server is forgotten."""
        # the engine itself: 40 MB that who only looks at a coordinator's folder has no use for
        from tripheno.federation.session import ServerLogin  # noqa: PLC0415

        if self._session is None:
            self._session = ServerLogin(self.engine_settings.lead)
            if self._server_began not in {"", self._session.server_began}:
                self._job = ""
            self._server_began = self._session.server_began
        return self._session

    def _log_out(self) -> None:
        """Leave the login alone: a busy server that does not answer has not lost its job."""
        if self._session is not None:
            self._session.__exit__(None, None, None)
            self._session = None

    def hang_up(self) -> None:
        """Give the job up and leave the login; the next attempt makes new ones."""
        self._given_up.add(self._job)
        if self._session is not None and self._job:
            self._session.abort(self._job)
        self.rest()

    def rest(self) -> None:
        """Leave the job, which stays warm for the next run, and the login."""
        if self._line is not None:
            self._line.close()
            self._line = None
        with suppress(Empty):
            while True:
                self._lines.get_nowait().close()
        self._log_out()
        self._job, self._asking = "", False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_ending: object) -> None:
        if self._asking:
            self.hang_up()  # its answers would be in the way of the next run
        self.rest()
        self._relay_socket.close()
