"""How is a text table written? Its header decides: delimiter, columns, compression, BOM."""

from __future__ import annotations

import csv
import gzip
import io
from dataclasses import dataclass
from pathlib import Path

from tripheno.errors import UnreadableTable
from tripheno.records.duck import literal

DELIMITERS = (",", ";", "\t", "|")
_LONGEST_HEADER = 1 << 20


@dataclass(frozen=True)
class Header:
    """The first line of a text table."""

    columns: tuple[str, ...]
    delimiter: str
    quoted: bool = True
    """Tab-separated tables (such as OHDSI's vocabularies) hold bare quotation marks, unless the
    header itself is quoted."""


def header_of(path: Path, delimiter: str | None = None) -> Header:
    """Read the first line and choose the delimiter that gives the most columns."""
    line = first_line(path)
    best = Header((), delimiter or DELIMITERS[0])
    for candidate in (delimiter,) if delimiter else DELIMITERS:
        try:
            columns = next(csv.reader(io.StringIO(line), delimiter=candidate), [])
        except csv.Error:
            continue
        if len(columns) > len(best.columns):
            quoted = candidate != "\t" or '"' in line
            best = Header(_distinct(columns), candidate, quoted)
    if not any(best.columns):
        raise UnreadableTable("A table's file has no header", where=path.name)
    return best


def first_line(path: Path) -> str:
    """The first line of a text file, compressed or not, without byte-order mark."""
    opener = gzip.open if path.suffix.lower() == ".gz" else open
    try:
        with opener(path, "rb") as stream:
            return stream.readline(_LONGEST_HEADER).decode("utf-8-sig")
    except (EOFError, gzip.BadGzipFile):
        raise UnreadableTable(
            "A table's file is damaged", where=path.name, why="the compressed file is cut off"
        ) from None
    except UnicodeDecodeError:
        raise UnreadableTable(
            "A table's file is damaged", where=path.name, why="the text is not UTF-8"
        ) from None


def csv_relation(path: Path, delimiter: str | None = None) -> str:
    """A call of DuckDB's CSV reader that guesses nothing: every column is text."""
    header = header_of(path, delimiter)
    quote = '"' if header.quoted else ""
    columns = ", ".join(f"{literal(name)}: 'VARCHAR'" for name in header.columns)
    return (
        f"read_csv({literal(str(path))}, auto_detect = false, header = true, "
        f"delim = {literal(header.delimiter)}, quote = {literal(quote)}, "
        f"escape = {literal(quote)}, columns = {{{columns}}})"
    )


def _distinct(columns: list[str]) -> tuple[str, ...]:
    """Column names made distinct: a second 'x' becomes 'x_2', a blank one 'column 3'."""
    seen: dict[str, int] = {}
    names = []
    for position, column in enumerate(columns, start=1):
        name = column.strip() or f"column {position}"
        seen[name.lower()] = seen.get(name.lower(), 0) + 1
        names.append(name if seen[name.lower()] == 1 else f"{name}_{seen[name.lower()]}")
    return tuple(names)
