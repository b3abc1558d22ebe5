"""Files of which a reader never sees half: whole, or line by line; and tables for people."""

from __future__ import annotations

import csv
import errno
import importlib
import io
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

BINARY = getattr(os, "O_BINARY", 0)  # Windows would turn a line's end into two characters
FAR_BEYOND = 1 << 30  # Windows locks bytes, and nobody may read a locked one: none that exists


def _optional(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


_fcntl, _msvcrt = _optional("fcntl"), _optional("msvcrt")
_WIDE = ("\uff1d", "\uff0b", "\uff0d", "\uff20")  # = + - @ as some spreadsheets read them too
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", *_WIDE, "'")  # ' so that one can be taken off


def write_text(path: Path, text: str, *, private: bool = False) -> None:
    """Write whole or not at all: a temporary name, flushed to disk, then renamed."""
    with whole_file(path, private=private) as stream:
        stream.write(text.encode())


@contextmanager
def whole_file(path: Path, *, private: bool = True) -> Iterator[IO[bytes]]:
    """A file that appears when it is complete; only its owner can read it, whatever the umask."""
    temporary = path.with_name(path.name + ".part")
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | BINARY
    descriptor = os.open(temporary, flags, 0o600 if private else 0o666)
    with os.fdopen(descriptor, "wb") as stream:
        if private:
            temporary.chmod(0o600)  # the rest of a write that was killed may be open to others
        yield stream
        stream.flush()
        os.fsync(stream.fileno())
    temporary.replace(path)


def owners_folder(folder: Path) -> Path:
    """A folder that only its owner can open, whatever the umask; its parents are made as usual."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    folder.chmod(0o700)
    return folder


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
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | BINARY, mode)
    try:
        before = os.fstat(descriptor).st_size
        if os.write(descriptor, data) < len(data):
            os.ftruncate(descriptor, before)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        if sync:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def lock(descriptor: int, *, wait: bool = False, shared: bool = False) -> None:
    """Lock an open file for this process until it is closed; BlockingIOError if another has it.

    Windows knows no shared lock of this kind, and waits ten seconds at most.
    """
    if _fcntl is not None:
        kind = _fcntl.LOCK_SH if shared else _fcntl.LOCK_EX
        _fcntl.flock(descriptor, kind | (0 if wait else _fcntl.LOCK_NB))
        return
    os.lseek(descriptor, FAR_BEYOND, os.SEEK_SET)
    try:
        _msvcrt.locking(descriptor, _msvcrt.LK_LOCK if wait else _msvcrt.LK_NBLCK, 1)
    except OSError as fault:
        raise BlockingIOError(errno.EWOULDBLOCK, os.strerror(errno.EWOULDBLOCK)) from fault


@contextmanager
def held(path: Path) -> Iterator[None]:
    """Hold a file for one process at a time; OSError while another one holds it."""
    with path.open("ab") as stream:
        lock(stream.fileno())
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
