"""A run as it goes on: its status and the new lines of its history, as server-sent events."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

from tripheno.progress import HISTORY, STATUS

SECONDS_BETWEEN_LOOKS = 0.3


class Follower:
    """What is new in a folder since the last look.

    The history may begin anew under the same name (another start, or the finished run): then a
    ``begin`` says so and every line comes again.
    """

    def __init__(self, folder: Path, run: Path) -> None:
        self.status, self.history = folder / STATUS, run / HISTORY
        self._place, self._file, self._said = 0, -1, ""

    def news(self) -> Iterator[str]:
        """Events for everything that changed; whole lines only."""
        yield from self._lines()
        text = _text(self.status)
        if text != self._said and (event := _event("status", text)):
            self._said = text
            yield event

    def _lines(self) -> Iterator[str]:
        try:
            stream = self.history.open("rb")
        except OSError:
            return
        with stream:
            found = os.fstat(stream.fileno())
            if found.st_ino != self._file or found.st_size < self._place:
                self._file, self._place = found.st_ino, 0
                yield "event: begin\ndata: {}\n\n"
            stream.seek(self._place)
            whole, newline, _ = stream.read().rpartition(b"\n")
        self._place += len(whole) + len(newline)
        for line in whole.splitlines():
            if event := _event("iteration", line.decode("utf-8", "replace")):
                yield event


async def follow(
    folder: Path, run: Path, ending: Callable[[], bool] = lambda: False
) -> AsyncIterator[str]:
    """Events of a run for as long as the reader listens and the server is not ``ending``."""
    follower = Follower(folder, run)
    while not ending():
        silent = True
        for event in follower.news():
            silent = False
            yield event
        if silent:
            yield ": still here\n\n"
        await asyncio.sleep(SECONDS_BETWEEN_LOOKS)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return ""


def _event(name: str, text: str) -> str:
    try:
        value: Any = json.loads(text)
    except ValueError:
        return ""
    return f"event: {name}\ndata: {json.dumps(value)}\n\n"
