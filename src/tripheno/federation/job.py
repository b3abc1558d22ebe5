"""The two objects that the engine's job builds: one at the server, one at each hospital.

They pass bytes on and do nothing else. A hospital's engine is told to build these classes only, and
to accept no code that travels (:mod:`tripheno.federation.hardening`).
"""

from __future__ import annotations

import json
import time
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from nvflare.collab import collab

from tripheno.federation.relay import Broken, frame, knock, read_frame

if TYPE_CHECKING:
    from multiprocessing.connection import Connection


def _workspace() -> Path:
    return Path(collab.fl_ctx.get_workspace().get_root_dir())


class HospitalPost:
    """At a hospital: a step that arrives goes to the process of `tripheno join`, and back."""

    def __init__(self) -> None:
        self._line: Connection[Any, Any] | None = None
        self._lock = Lock()

    @collab.publish  # type: ignore[untyped-decorator]
    def answer(self, step: str, data: bytes) -> bytes:
        """Pass a step on; a `join` that was started again is found again."""
        with self._lock:
            for attempt in (1, 2):
                try:
                    if self._line is None:
                        self._line = knock(_workspace())
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

    @collab.main  # type: ignore[untyped-decorator]
    def run(self) -> None:
        """Until `tripheno run` hangs up."""
        with suppress(*Broken), knock(_workspace()) as line:
            line.send_bytes(frame("ready", json.dumps([c.name for c in collab.clients]).encode()))
            while True:
                word, data = read_frame(line.recv_bytes())
                seconds, _, step = word.partition(" ")
                arrived = Arrivals()
                asked = collab.clients(timeout=float(seconds), process_resp_cb=arrived.note)
                found = asked.answer(step, data) if step else asked.here()
                failures = {name: str(fault)[:300] for name, fault in found.failures.items()}
                answers = {name: part for name, part in found if isinstance(part, bytes)}
                sizes = {name: len(part) for name, part in answers.items()}
                told = {"sizes": sizes, "failures": failures, "seconds": arrived.seconds}
                head = json.dumps(told)
                line.send_bytes(frame(head, b"".join(answers.values())))
