"""Files of which a reader never sees half: whole, or line by line; and tables for people."""

from __future__ import annotations

import csv
import errno
import fcntl
import io
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "'")  # an apostrophe too, so that it can be taken off


def write_text(path: Path, text: str) -> None:
    """Write whole or not at all: a temporary name, flushed to disk, then renamed."""
    temporary = path.with_name(path.name + ".part")
    with temporary.open("w", encoding="utf-8") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
    temporary.replace(path)


def begin_lines(path: Path) -> None:
    """An empty file under this name; whoever follows the old one sees that it is another."""
    temporary = path.with_name(path.name + ".part")
    temporary.write_bytes(b"")
    temporary.replace(path)


def append_line(path: Path, line: str, mode: int = 0o644) -> None:
    """One more line, in one write, so that a reader sees all of it or nothing.

    What a full disk cut short is taken off again, and raises.
    """
    data = line.encode() + b"\n"
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, mode)
    try:
        before = os.fstat(descriptor).st_size
        if os.write(descriptor, data) < len(data):
            os.ftruncate(descriptor, before)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
    finally:
        os.close(descriptor)


@contextmanager
def held(path: Path) -> Iterator[None]:
    """Hold a file for one process at a time; OSError while another one holds it."""
    with path.open("a") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield


def defused(value: Any) -> Any:
    """A cell that no spreadsheet runs as a formula: such a text gets an apostrophe before it."""
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value


def as_it_was(text: str) -> str:
    """The text of a cell before it was defused."""
    return text[1:] if text[:1] == "'" and text[1:].startswith(_FORMULA) else text


def csv_text(rows: Iterable[Iterable[Any]]) -> str:
    """Rows as CSV that people may open in a spreadsheet."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerows([defused(cell) for cell in row] for row in rows)
    return stream.getvalue()
