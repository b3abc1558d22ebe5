"""A settings file (TOML) under layers of overrides, read value by value; all faults at once.

The order is command line > environment > file > default. Every value remembers where it came from,
so that a fault names the file's line, the variable or the option. Keys that nobody asked for are
faults too.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from tripheno.errors import NoSuchFile, SettingsError

T = TypeVar("T")
Check = Callable[[Any], T]
"""The value in its own type; a ValueError says what it must be."""

_HEADER = re.compile(r"^\s*(?P<open>\[\[?)\s*(?P<path>[^\[\]]+?)\s*\]\]?")
_KEY = re.compile(r"^\s*(?P<path>[A-Za-z0-9_\-\".' ]+?)\s*=(?!=)")


@dataclass(frozen=True)
class Layer:
    """Values that go over the file's: dotted path → value, and where each was said."""

    values: Mapping[str, Any]
    said: Mapping[str, str]  # path → the option or variable, for messages


def lines_of(text: str) -> dict[str, int]:
    """The line on which each table and key of a TOML text stands, by dotted path."""
    found: dict[str, int] = {}
    table, counts = "", dict[str, int]()
    for number, line in enumerate(text.splitlines(), start=1):
        header, key = _HEADER.match(line), _KEY.match(line)
        if header is not None and key is None:
            table = _plain(header["path"])
            if header["open"] == "[[":
                counts[table] = counts.get(table, -1) + 1
                table = f"{table}[{counts[table]}]"
            found.setdefault(table, number)
        elif key is not None:
            path = _plain(key["path"])
            found.setdefault(f"{table}.{path}" if table else path, number)
    return found


def _plain(path: str) -> str:
    return ".".join(part.strip().strip("\"'") for part in path.split("."))


def flattened(value: Any, path: str = "") -> dict[str, Any]:
    """Nested tables as dotted paths; the members of an array of tables are numbered."""
    if isinstance(value, dict):
        found: dict[str, Any] = {}
        for key, below in value.items():
            found.update(flattened(below, f"{path}.{key}" if path else str(key)))
        return found
    if isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
        found = {}
        for number, item in enumerate(value):
            found.update(flattened(item, f"{path}[{number}]"))
        return found
    return {path: value}


def _whence(missing: Path) -> str:
    """Who writes a settings file that is not there."""
    if missing.name == "federation.toml":
        return (
            "a hospital gets it from the coordinator and puts it beside site.toml; the coordinator "
            "writes it with `tripheno init coordinator`"
        )
    return "write one with `tripheno init`, or name another"


class SettingsFile:
    """One settings file being read. Ask for every key it may have, then `finish`."""

    def __init__(self, path: Path, kind: type[SettingsError], layers: Sequence[Layer] = ()) -> None:
        self.name, self.folder, self._kind = path.name, path.resolve().parent, kind
        if not path.is_file():
            raise NoSuchFile(f"No settings file {path}", fix=_whence(path))
        text = path.read_bytes().decode("utf-8", "replace")
        try:
            given = tomllib.loads(text)
        except tomllib.TOMLDecodeError as fault:
            raise kind("not TOML", where=self.name, why=str(fault)) from None
        self._lines = lines_of(text)
        self._values = flattened(given)
        self._said: dict[str, str] = {}
        for layer in layers:  # the last one wins
            self._values.update(layer.values)
            self._said.update(layer.said)
        self._asked: set[str] = set()
        self._faults: list[tuple[int, str]] = []

    def where(self, path: str) -> str:
        """Where a value was said: an option, a variable, or the file's line."""
        if path in self._said:
            return self._said[path]
        line = self._line(path)
        return f"line {line}" if line else self.name

    def _line(self, path: str) -> int:
        """The line of a key; of the table around it for a key that is missing or stands inside."""
        while path:
            if path in self._lines:
                return self._lines[path]
            path = path.rpartition(".")[0] if "." in path else ""
        return 0

    def fault(self, path: str, what: str) -> None:
        """Remember what is wrong with a value."""
        order = 0 if path in self._said else self._line(path)
        self._faults.append((order, f"{self.where(path)}: {what}"))

    def says(self, path: str) -> bool:
        """Whether a value was given at all."""
        return path in self._values

    def take(self, path: str, check: Check[T], default: T) -> T:
        """The value at a path, checked; the default where there is none, or where it is bad."""
        self._asked.add(path)
        if path not in self._values:
            return default
        try:
            return check(self._values[path])
        except ValueError as wrong:
            self.fault(path, f"{path} {wrong}, not {self._values[path]!r}")
            return default

    def need(self, path: str, check: Check[T], fallback: T) -> T:
        """The same for a value that must be there."""
        if path not in self._values:
            self._asked.add(path)
            self.fault(path, f"{path} is missing")
            return fallback
        return self.take(path, check, fallback)

    def below(self, table: str, check: Check[T]) -> dict[str, T]:
        """A table whose keys are free."""
        paths = [path for path in self._values if path.startswith(f"{table}.")]
        found: dict[str, T] = {}
        for path in paths:
            self._asked.add(path)
            try:
                found[path[len(table) + 1 :]] = check(self._values[path])
            except ValueError as wrong:
                self.fault(path, f"{path} {wrong}, not {self._values[path]!r}")
        return found

    def count(self, array: str) -> int:
        """How many members an array of tables has."""
        return len({path.split(".")[0] for path in self._values if path.startswith(f"{array}[")})

    def leave(self, table: str) -> None:
        """A table that another reader checks."""
        self._asked |= {path for path in self._values if re.match(rf"{table}[.\[]", path)}

    def finish(self) -> None:
        """Raise everything that is wrong, keys that nobody knows included."""
        for path in self._values.keys() - self._asked:
            close = difflib.get_close_matches(path, self._asked - self._values.keys(), 1)
            hint = f" (did you mean {close[0]}?)" if close else ""
            self.fault(path, f"unknown key {path}{hint}")
        if self._faults:
            raise self._kind("; ".join(text for _, text in sorted(self._faults)), where=self.name)


# ── what a value may be ───────────────────────────────────────────────────────────────────────


def text(value: Any) -> str:
    """Some text."""
    if not isinstance(value, str) or not value.strip():
        raise ValueError("must be text")
    return value


def plain_name(value: Any) -> str:
    """A name that may stand in a file's name and a certificate."""
    if not isinstance(value, str) or not re.fullmatch(r"\w[\w.-]{0,62}", value, re.ASCII):
        raise ValueError("must be a name of letters, digits, dots and hyphens")
    return value


def truth(value: Any) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise ValueError("must be true or false")
    return value


def whole(least: int, most: int | None = None) -> Check[int]:
    """A whole number, not smaller than, and not larger."""
    range_ = f"{least} or more" if most is None else f"{least} to {most}"

    def check(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise ValueError(f"must be a whole number of {range_}")
        if most is not None and value > most:
            raise ValueError(f"must be a whole number of {range_}")
        return value

    return check


def wholes(least: int) -> Check[tuple[int, ...]]:
    """A list of whole numbers, none smaller than."""
    one = whole(least)

    def check(value: Any) -> tuple[int, ...]:
        if not isinstance(value, list):
            raise ValueError(f"must be a list of whole numbers of {least} or more")
        return tuple(one(item) for item in value)

    return check


def number(*, positive: bool) -> Check[float]:
    """A finite number above zero, or not below it."""

    def check(value: Any) -> float:
        fits = isinstance(value, int | float) and not isinstance(value, bool)
        if not fits or not (0 < value < 1e300 or (value == 0 and not positive)):
            raise ValueError("must be a positive number" if positive else "must be 0 or more")
        return float(value)

    return check


def one_of(choices: Sequence[str]) -> Check[Any]:
    """One of a few words."""

    def check(value: Any) -> str:
        if value not in choices:
            raise ValueError(f"must be one of {', '.join(choices)}")
        return str(value)

    return check


def texts(value: Any) -> tuple[str, ...]:
    """A list of texts."""
    if not isinstance(value, list) or not value or not all(isinstance(v, str) for v in value):
        raise ValueError("must be a list of texts")
    return tuple(value)


def fingerprint_text(value: Any) -> str:
    """SHA-256 of a public key: 64 hexadecimal digits, colons and spaces allowed."""
    plain = re.sub(r"[:\s]", "", value).lower() if isinstance(value, str) else ""
    if not re.fullmatch(r"[0-9a-f]{64}", plain):
        raise ValueError("must be a fingerprint of 64 hexadecimal digits")
    return plain
