"""The last metres between our process and the engine's job beside it, on the same machine.

The engine starts a process of its own for every job. Ours keeps the keys, the patients and the
state; the job's process only passes bytes on, through a socket in a folder that its owner alone can
open. So a killed job loses nothing, and no code of ours that touches data runs inside the engine.

A *frame* is a word and bytes. Nothing on the socket is pickled. The job's process imports this file
and no arithmetic: what errors become on the wire is imported where they are told.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import tempfile
from collections.abc import Callable
from contextlib import suppress
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Any, Self

from tripheno.errors import BadMessage
from tripheno.federation.transport import Outbox, Responder

ADDRESS = "relay.json"
KEY_BYTES = 32
LONGEST_ADDRESS = 100  # of a Unix socket: 107 bytes on Linux, 103 on macOS
WENT_WELL, WENT_WRONG = b"\x00", b"\x01"
Broken = (EOFError, OSError)  # what a line that was cut raises


def frame(word: str, data: bytes) -> bytes:
    """A word and bytes as one message."""
    head = word.encode()
    return len(head).to_bytes(4, "little") + head + data


def read_frame(message: bytes) -> tuple[str, bytes]:
    """The word and the bytes of a message."""
    length = int.from_bytes(message[:4], "little")
    if len(message) < 4 + length:
        raise BadMessage("a frame that is cut short", where="relay")
    try:
        return message[4 : 4 + length].decode(), message[4 + length :]
    except UnicodeDecodeError:
        raise BadMessage("a frame that cannot be read", where="relay") from None


def _folder_of_socket(beside: Path) -> Path:
    """A folder that its owner alone can open, where the engine surely sees it too.

    A service may have a /tmp of its own, so the socket stands beside the engine's settings; only
    where that path is too long for a socket's address it goes to the temporary folder.
    """
    folder = Path(tempfile.mkdtemp(prefix="s-", dir=beside))  # mode 0700
    if len(os.fsencode(folder / "s")) <= LONGEST_ADDRESS:
        return folder
    folder.rmdir()
    return Path(tempfile.mkdtemp(prefix="tripheno-"))


class RelaySocket:
    """Where the engine's job finds us: a socket, and a file in the engine's folder that says so."""

    def __init__(self, workspace: Path) -> None:
        self._note = workspace / "local" / ADDRESS
        self._note.parent.mkdir(parents=True, exist_ok=True)
        self._folder = _folder_of_socket(self._note.parent)
        key = secrets.token_bytes(KEY_BYTES)
        address = str(self._folder / "s")
        self._listener = Listener(address, "AF_UNIX", authkey=key)
        self._note.unlink(missing_ok=True)
        descriptor = os.open(self._note, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            json.dump({"address": address, "key": key.hex()}, stream)

    def accept(self) -> Connection[Any, Any]:
        """The next job that connects; waits."""
        while True:
            try:
                return self._listener.accept()
            except (EOFError, ConnectionError, AuthenticationError):  # connected and left, or died
                continue

    def close(self) -> None:
        """Nobody can connect any more."""
        self._listener.close()
        self._note.unlink(missing_ok=True)
        shutil.rmtree(self._folder, ignore_errors=True)


def connect_to_relay(workspace: Path) -> Connection[Any, Any]:
    """From inside the engine's job: the line to our process."""
    note = json.loads((workspace / "local" / ADDRESS).read_text(encoding="utf-8"))
    return Client(note["address"], "AF_UNIX", authkey=bytes.fromhex(note["key"]))


# ── a hospital's answers, errors included ─────────────────────────────────────────────────────


def sealed_answer(respond: Responder, step: str, data: bytes) -> bytes:
    """What a hospital says to a step: its bytes, or the code of an error.

    Nothing else of a failure leaves: its text could hold a patient's value, a name or a path.
    """
    from tripheno.privacy.faults import fault_bytes  # noqa: PLC0415

    try:
        return WENT_WELL + respond(step, data)
    except Exception as fault:
        return WENT_WRONG + fault_bytes(fault)


def opened_answer(hospital: str, answer: bytes) -> bytes:
    """A hospital's bytes, or its error raised here under its name, in our own words."""
    from tripheno.privacy.faults import fault_of  # noqa: PLC0415

    if answer[:1] == WENT_WELL:
        return answer[1:]
    raise fault_of(answer[1:], hospital)


class RelayServer:
    """A hospital's side of the relay: every job that connects is served by the same responder.

    One step at a time, each made once: a job that was killed and its successor ask the same
    :class:`~tripheno.federation.transport.Outbox`.
    """

    def __init__(
        self,
        workspace: Path,
        respond: Responder,
        may_repeat: Callable[[str], None] = lambda _step: None,
    ) -> None:
        self._relay_socket, self._lock = RelaySocket(workspace), Lock()
        self._hung_up = Event()
        self.respond_with(respond, may_repeat)
        Thread(target=self._serve, name="tripheno-relay", daemon=True).start()

    def respond_with(
        self, respond: Responder, may_repeat: Callable[[str], None] = lambda _step: None
    ) -> None:
        """From now on another responder answers; what the last one said is forgotten."""
        with self._lock:
            self._outbox = Outbox(respond, may_repeat)

    def _serve(self) -> None:
        while True:
            try:
                line = self._relay_socket.accept()
            except OSError:  # closed
                return
            Thread(target=self._attend, args=(line,), daemon=True).start()

    def _attend(self, line: Connection[Any, Any]) -> None:
        self._hung_up.clear()
        with line, suppress(*Broken):
            while True:
                step, data = read_frame(line.recv_bytes())
                with self._lock:
                    answer = sealed_answer(self._outbox.answer, step, data)
                line.send_bytes(answer)
        self._hung_up.set()

    def wait_for_silence(self, seconds: float) -> None:
        """Wait until the job that was served last has hung up, but not for ever."""
        self._hung_up.wait(seconds)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_ending: object) -> None:
        self._relay_socket.close()
