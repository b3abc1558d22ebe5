"""What a machine of a federation did and when, one line an event: for a person and for a program.

::

    COORDINATOR/state/log.jsonl            of `serve`
    COORDINATOR/state/runs/RUN/log.jsonl   of `run`
    HOSPITAL/state/log.jsonl               of `join`

A line holds the time, the event, a sentence, and facts about machines: names of hospitals and
steps, iterations, sizes, seconds. It has no place for a patient's value or a code. A log of ten
megabytes is put aside as ``log.jsonl.1``.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tripheno.federation.pruning import keep_short
from tripheno.files import append_line

LOG = "log.jsonl"
Fact = str | int | float | list[str] | None
Show = Callable[[dict[str, Any], bool], None]
"""``show(line, result)``: whether the line is what the command was called for."""


def silent(_line: dict[str, Any], _result: bool) -> None:
    """Into the file alone."""


class Journal:
    """Writes lines into a folder's ``log.jsonl`` and shows them."""

    def __init__(self, folder: Path, show: Show = silent) -> None:
        self._path, self._show = folder / LOG, show

    def note(self, event: str, text: str, *, result: bool = False, **facts: Fact) -> None:
        """One event. A disk that is full stops no study because of its log."""
        line = {"time": _now(), "event": event, "text": text, **facts}
        with suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            keep_short(self._path)
            append_line(self._path, json.dumps(line, ensure_ascii=False), mode=0o600)
        self._show(line, result)


def last_line(folder: Path) -> dict[str, Any]:
    """The newest line of a folder's log; nothing where there is none, or half of one."""
    with suppress(OSError, ValueError, IndexError):
        found: dict[str, Any] = json.loads((folder / LOG).read_text("utf-8").splitlines()[-1])
        return found
    return {}


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
