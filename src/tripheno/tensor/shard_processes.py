"""Shards as processes of this machine."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from tripheno.errors import ShardLost
from tripheno.tensor.shard import FAILED
from tripheno.tensor.shard_messages import unpacked

SECONDS_TO_END = 5.0
SHORT = 4096  # bytes: an answer that tells of a failure is shorter


class Processes:
    """A process for every shard; they end with the one that started them."""

    def __init__(self, number: int, threads: int | None = None) -> None:
        self.number = number
        threads = threads or max(1, (os.cpu_count() or 1) // number)
        self._lines: list[Connection] = []
        self._children: list[subprocess.Popen[bytes]] = []
        for _ in range(number):
            here, there = socket.socketpair()
            words = ["tripheno.tensor.shard", str(there.fileno()), str(threads)]
            with there:
                child = subprocess.Popen(  # noqa: S603 - this very program
                    [sys.executable, "-P", "-m", *words], pass_fds=[there.fileno()]
                )
            self._children.append(child)
            self._lines.append(Connection(here.detach()))

    @property
    def ids(self) -> list[int]:
        """Of the processes, in the shards' order."""
        return [child.pid for child in self._children]

    def ask(self, requests: Sequence[bytes]) -> list[bytes]:
        """All work at once. A shard that has ended is an error, and the others are ended too."""
        for n, request in enumerate(requests):
            self._through(n, partial(_send, request=request))
        answers = [self._through(n, Connection.recv_bytes) for n in range(self.number)]
        for n, answer in enumerate(answers):
            check_answer(answer, n, self.number)
        return answers

    def _through(self, n: int, work: Callable[[Connection], Any]) -> Any:
        try:
            return work(self._lines[n])
        except (EOFError, OSError):
            raise self._lost(n) from None

    def close(self) -> None:
        """A shard whose line is closed ends by itself; one that does not is killed."""
        for line in self._lines:
            line.close()
        for child in self._children:
            with suppress(subprocess.TimeoutExpired):
                child.wait(SECONDS_TO_END)
            if child.poll() is None:
                child.kill()
                child.wait()

    def _lost(self, n: int) -> ShardLost:
        with suppress(subprocess.TimeoutExpired):
            self._children[n].wait(SECONDS_TO_END)
        code = self._children[n].poll()
        self.close()
        how = f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"
        return ShardLost(
            f"shard {n + 1} of {self.number} ended", why=how,
            fix="a shard that ran out of memory needs fewer patients: take more shards",
        )  # fmt: skip


def _send(line: Connection, request: bytes) -> None:
    line.send_bytes(request)


def check_answer(answer: bytes, n: int, number: int) -> None:
    """An answer that tells of a failure becomes the error it was."""
    if len(answer) > SHORT:
        return
    reply = unpacked(answer)
    if not (isinstance(reply, dict) and FAILED in reply):
        return
    if reply[FAILED] == "LinAlgError":  # the loop knows what that means
        raise np.linalg.LinAlgError("at a shard")
    raise ShardLost(f"shard {n + 1} of {number} could not compute", why=str(reply[FAILED]))
