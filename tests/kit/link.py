"""A link that can be cut and mended: bytes pass through this process, or do not."""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Lock, Thread
from types import TracebackType
from typing import Self

AT_ONCE = struct.pack("ii", 1, 0)  # close with a reset, without waiting


class Link:
    """A TCP relay on the loopback address.

    *Silenced*, it loses what is under way for a while: connections stay, nothing passes, nobody is
    told. *Refused*, every connection is reset, and nobody gets a new one.
    """

    def __init__(self, port: int) -> None:
        self._target = ("127.0.0.1", port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._passes, self._closed = Event(), Event()
        self._passes.set()
        self._lock = Lock()
        self._open: list[socket.socket] = []
        self._listen()

    def silence(self) -> None:
        """Nothing passes any more, and nobody is told."""
        self._passes.clear()

    def refuse(self) -> None:
        """Every connection is reset, and new ones are refused."""
        self._stop_listening()
        self._reset_all()

    def mend(self) -> None:
        """Bytes pass again, and whoever comes is let through."""
        self._passes.set()
        if self._listener.fileno() < 0:
            self._listener = socket.create_server(("127.0.0.1", self.port))
            self._listen()

    def _listen(self) -> None:
        Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def _accept(self, listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                near, _ = listener.accept()
                Thread(target=self._connect, args=(near,), daemon=True).start()

    def _connect(self, near: socket.socket) -> None:
        self._passes.wait()
        try:
            far = socket.create_connection(self._target)
        except OSError:
            near.close()
            return
        with self._lock:
            self._open += [near, far]
        Thread(target=self._pass, args=(near, far), daemon=True).start()
        self._pass(far, near)

    def _pass(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                self._passes.wait()
                target.sendall(data)
        for one in (source, target):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def _stop_listening(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
        self._listener.close()

    def _reset_all(self) -> None:
        with self._lock:
            gone, self._open = self._open, []
        for one in gone:
            with suppress(OSError):
                one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, AT_ONCE)
                one.shutdown(socket.SHUT_RD)  # wakes the thread that reads, says nothing
            one.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        fault: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop_listening()
        self._reset_all()
        self._passes.set()


@contextmanager
def linked(site: Path) -> Iterator[Link]:
    """A hospital whose engine reaches the server through a link, while the block lasts."""
    kit = next(site.rglob("startup/fed_client.json"))
    direct = kit.read_text(encoding="utf-8")
    target = json.loads(direct)["servers"][0]["service"]["target"]
    with Link(int(target.rpartition(":")[2])) as link:
        kit.write_text(direct.replace(target, f"localhost:{link.port}"), encoding="utf-8")
        try:
            yield link
        finally:
            kit.write_text(direct, encoding="utf-8")
