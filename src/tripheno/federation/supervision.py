"""The engine's own processes under our supervision: started, started again, and ended with us."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread
from typing import Self

import psutil

from tripheno.federation.child import words_of_child
from tripheno.federation.hardening import harden
from tripheno.federation.pruning import SECONDS_A_DAY, keep_short, prune

SECONDS_TO_END = 10.0
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 30.0
SECONDS_BETWEEN_HEARTBEATS = 2  # of an agent to its server
# Refused for longer, the holder's heart still beats: it is not our own before, which is let go
# after 12 s; on a busy machine an engine that was refused takes a while to end.
SECONDS_OF_DOUBT = 30.0
SECONDS_AT_WORK = 60.0  # after which an engine was let in, and its end is a new matter
REFUSED = b"register_client unauthenticated"  # what the engine says of a name that is held
# An engine's twenty threads carry bytes and would each keep a heap of their own (glibc).
FEW_ARENAS = {"MALLOC_ARENA_MAX": "2"}
Tell = Callable[[str], None]


def server_words(workspace: Path) -> list[str]:
    """The engine's server, as its own start script runs it."""
    module = "nvflare.private.fed.app.server.server_train"
    return _words(module, workspace, "fed_server.json", ["org=tripheno"])


def agent_words(workspace: Path, name: str) -> list[str]:
    """A hospital's agent."""
    values = [f"uid={name}", "org=tripheno", f"heart_beat_interval={SECONDS_BETWEEN_HEARTBEATS}"]
    return _words("tripheno.federation.client_train", workspace, "fed_client.json", values)


def _words(module: str, workspace: Path, settings: str, values: list[str]) -> list[str]:
    start = words_of_child(os.getpid(), module)
    said = ["--set", "secure_train=true", *values, "config_folder="]
    return [*start, "-m", str(workspace), "-s", settings, *said]


class Supervised:
    """An engine process that is started again when it dies, until the block ends.

    One that the server refuses is not: ``refused`` is true then, and ``wake`` is set.
    """

    def __init__(
        self, words: list[str], workspace: Path, tell: Tell, wake: Event | None = None
    ) -> None:
        self._words, self._workspace, self._tell = words, workspace, tell
        self._ending, self._wake = Event(), wake or Event()
        self.refused = False
        self._said = workspace / "engine.out"
        self._heard = 0  # bytes of it that are of earlier starts
        self._note = workspace / "engine.pid"
        self._child: subprocess.Popen[bytes] | None = None
        self._thread = Thread(target=self._watch, name="tripheno-engine", daemon=True)

    @property
    def pid(self) -> int | None:
        """The process that was started last."""
        return None if self._child is None else self._child.pid

    def __enter__(self) -> Self:
        end_leftover(self._note, self._workspace)
        harden(self._workspace)
        prune(self._workspace)
        self._start()
        self._thread.start()
        return self

    def __exit__(self, *_ending: object) -> None:
        self._ending.set()
        if self._child is not None:
            end_tree(self._child.pid)
            self._child.wait()
        self._note.unlink(missing_ok=True)

    def _start(self) -> None:
        keep_short(self._said)
        with self._said.open("ab") as out:
            self._heard = out.tell()
            self._child = subprocess.Popen(  # noqa: S603
                self._words, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                cwd=self._workspace, start_new_session=True,
                env={**os.environ, **FEW_ARENAS, "HOME": str(self._workspace)},
            )  # fmt: skip
        self._note.write_text(str(self._child.pid), encoding="utf-8")

    def _watch(self) -> None:
        """Start the engine again when it died; growing pauses keep a broken one from racing."""
        pause, doubtful_since = FIRST_PAUSE, 0.0
        while True:
            started = time.monotonic()
            code = self._waited()
            now = time.monotonic()
            if self._ending.is_set():
                return
            if now - started > SECONDS_AT_WORK:
                pause, doubtful_since = FIRST_PAUSE, 0.0
            if self._was_refused():
                doubtful_since, pause = doubtful_since or now, FIRST_PAUSE
            if doubtful_since and now - doubtful_since > SECONDS_OF_DOUBT:
                self.refused = True
                self._wake.set()
                return
            why = "is refused: its name is held" if doubtful_since else f"ended ({code})"
            self._tell(f"the engine {why}; it is started again in {pause:.0f} s")
            if self._ending.wait(pause):
                return
            pause = min(2 * pause, LONGEST_PAUSE)
            self._start()

    def _waited(self) -> int:
        """The engine's exit code; what it leaves behind is pruned once a day."""
        assert self._child is not None  # started before the thread
        while True:
            try:
                return self._child.wait(SECONDS_A_DAY)
            except subprocess.TimeoutExpired:
                prune(self._workspace)

    def _was_refused(self) -> bool:
        with self._said.open("rb") as said:
            said.seek(self._heard)
            return REFUSED in said.read()


def end_tree(pid: int) -> None:
    """End a process and everything it started; what does not go is killed."""
    try:
        root = psutil.Process(pid)
        family = [*root.children(recursive=True), root]
    except psutil.NoSuchProcess:
        return
    for one in family:
        with suppress(psutil.NoSuchProcess):
            one.send_signal(signal.SIGTERM)
    _, left = psutil.wait_procs(family, timeout=SECONDS_TO_END)
    for one in left:
        with suppress(psutil.NoSuchProcess):
            one.kill()


def end_leftover(note: Path, workspace: Path) -> None:
    """End the engine of a process of ours that was killed, if it is still there and is ours."""
    with suppress(OSError, ValueError, psutil.Error):
        pid = int(note.read_text(encoding="utf-8"))
        if str(workspace) in psutil.Process(pid).cmdline():
            end_tree(pid)
