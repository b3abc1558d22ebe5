"""Files of which a reader never sees half: written whole, or line by line."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


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


def append_line(path: Path, line: str, mode: int = 0o644, *, sync: bool = False) -> None:
    """One more line, in one write, so that a reader sees all of it or nothing.

    What a full disk cut short is taken off again, and raises. With ``sync`` it is on the disk
    before anything else happens.
    """
    data = line.encode() + b"\n"
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, mode)
    try:
        before = os.fstat(descriptor).st_size
        if os.write(descriptor, data) < len(data):
            os.ftruncate(descriptor, before)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        if sync:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def held(path: Path) -> Iterator[None]:
    """Hold a file for one process at a time; OSError while another one holds it."""
    with path.open("a") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
