"""What is this file? Its content decides, never its name: compression, encoding, line ends, header.

Text is read strictly: every column is text until somebody declares it to be something else.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

import pyarrow as pa

from tripheno.errors import SettingsError, UnreadableTable

DELIMITERS = (",", ";", "\t", "|")
MISSING = (
    "",
    "NULL",
    "Null",
    "null",
    "NA",
    "N/A",
    "n/a",
    "\\N",
    "None",
    "NaN",
    "nan",
    "<NA>",
    "#N/A",
    "NONE",
    "none",
    "(null)",
    "(NULL)",
    "[NULL]",
    "#NULL!",
    "#VALUE!",
    "#REF!",
    "#NAME?",
    "#DIV/0!",
    "#NUM!",
    "NaT",
    "-",
    ".",
    "?",
)
"""Words that mean "nothing". They never become a patient, a visit or a code. Capitals count: Na is
sodium."""
NOBODY = ("unknown", "unk", "n.a.", "not available", "nil", "undefined", "total", "grand total")
"""Words that are no id either, in capitals or not."""
_UNSEEN = re.compile("[\ufeff\u200b-\u200f\u202a-\u202e\u2060\u2066-\u2069\u00ad\x00]")
MISREAD = re.compile("[\u00c2\u00c3\u00e2\u00e3][\u0080-\u00bf]|\ufffd|&[a-z]+;")
"""UTF-8 taken for Latin-1, letters that were lost, names of letters as pages write them."""
_LONGEST_HEADER = 1 << 20
_MOST_HEADER_LINES = 8
_HEAD = 512
_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_MAGIC = (
    (0, b"PAR1", "parquet"),
    (0, b"\x1f\x8b", "gzip"),
    (0, b"\x28\xb5\x2f\xfd", "zstd"),
    (8, b"DUCK", "duckdb"),
    (0, b"SQLite format 3\x00", "sqlite"),
)
_FOREIGN = (
    (0, b"PK\x03\x04", "a zip archive or an Excel workbook"),
    (0, b"\xd0\xcf\x11\xe0", "an old Excel or Access file"),
    (0, b"BZh", "compressed with bzip2"),
    (0, b"\xfd7zXZ\x00", "compressed with xz"),
    (0, b"7z\xbc\xaf\x27\x1c", "a 7-Zip archive"),
    (0, b"ARROW1", "an Arrow file"),
    (0, b"Obj\x01", "an Avro file"),
    (0, b"ORC", "an ORC file"),
    (0, b"\x89HDF", "an HDF5 file"),
    (0, b"$FL2", "an SPSS file"),
    (0, b"<stata_dta>", "a Stata file"),
    (12, b"\xc2\xea\x81\x60", "a SAS file"),
    (257, b"ustar", "a tar archive"),
    (4, b"Standard ACE DB", "an Access database"),
    (4, b"Standard Jet DB", "an Access database"),
    (0, b"%PDF", "a PDF"),
)


@dataclass(frozen=True)
class Header:
    """The first line of a text table."""

    columns: tuple[str, ...]
    delimiter: str
    quoted: bool = True
    """Tab-separated tables (such as OHDSI's vocabularies) hold bare quotation marks, unless the
    header itself is quoted."""


def kind_of(path: Path) -> str:
    """parquet, gzip, zstd, duckdb, sqlite or text; foreign files are refused by their names."""
    with path.open("rb") as stream:
        head = stream.read(_HEAD)
    for at, sign, kind in _MAGIC:
        if head[at:].startswith(sign):
            return kind
    _refuse_foreign(path, head)
    return "text"


def _refuse_foreign(path: Path, head: bytes) -> None:
    for at, sign, words in _FOREIGN:
        if head[at:].startswith(sign):
            raise UnreadableTable(
                "A file is not a table that can be read",
                where=path.name,
                why=f"it is {words}",
                fix="export it as CSV or Parquet, or unpack it",
            )


@contextmanager
def content(path: Path) -> Iterator[BinaryIO]:
    """The bytes of a text file, unpacked; a cut-off or damaged file is said so."""
    kind = kind_of(path)
    try:
        if kind == "gzip":
            with gzip.open(path, "rb") as packed:
                yield cast(BinaryIO, packed)
        elif kind == "zstd":
            with pa.input_stream(str(path), compression="zstd") as packed:
                yield io.BufferedReader(cast(io.RawIOBase, packed))
        else:
            with path.open("rb") as plain:
                yield plain
    except (EOFError, gzip.BadGzipFile, pa.ArrowException, OSError) as fault:
        if kind == "text" or isinstance(fault, FileNotFoundError | PermissionError):
            raise
        raise UnreadableTable(
            "A table's file is damaged",
            where=path.name,
            why="the compressed file is cut off or damaged",
        ) from None
    except UnicodeDecodeError:
        raise not_unicode(path.name) from None


def not_unicode(name: str) -> UnreadableTable:
    """The text is in some other encoding, which only its owner knows."""
    return UnreadableTable(
        "A table's file is damaged",
        where=name,
        why="the text is not UTF-8",
        fix="export it again as UTF-8, or name its encoding to ingest: --encoding latin-1",
    )


def encoding_of(path: Path, declared: str | None = None) -> str:
    """From the byte-order mark, else as declared, else UTF-8."""
    with content(path) as stream:
        head = stream.read(_HEAD)
    _refuse_foreign(path, head)  # what was packed may be no text either
    inner = next((kind for at, sign, kind in _MAGIC if head[at:].startswith(sign)), None)
    if inner is not None:
        raise UnreadableTable(
            "A file is not a table that can be read",
            where=path.name,
            why=f"it holds {inner} inside its compression",
            fix="unpack it once",
        )
    for mark, encoding in _MARKS:
        if head.startswith(mark):
            return encoding
    if declared is None and b"\x00" in head[:64]:
        raise UnreadableTable(
            "A table's file is damaged",
            where=path.name,
            why="it looks like UTF-16 without a byte-order mark",
            fix="export it again as UTF-8, or name its encoding to ingest: --encoding utf-16-le",
        )
    return declared or "utf-8"


def check_encoding(name: str | None) -> None:
    """Refuse an encoding that nobody knows."""
    try:
        codecs.lookup(name or "utf-8")
    except LookupError:
        raise SettingsError(f"unknown encoding {name!r}", fix="e.g. latin-1, utf-16-le") from None


def has_odd_line_ends(path: Path, declared: str | None = None) -> bool:
    """Whether lines end with a carriage return alone, or in different ways."""
    encoding = encoding_of(path, declared)
    with content(path) as stream:
        sample = stream.read(_LONGEST_HEADER & ~3).decode(encoding, errors="ignore")
    plain = sample.replace("\r\n", "").rstrip("\r")
    return "\r" in plain or ("\n" in plain and "\r\n" in sample)


def ends_a_line(path: Path) -> bool:
    """Whether the last line of a plain file has an end."""
    with path.open("rb") as stream:
        stream.seek(-min(4, path.stat().st_size), io.SEEK_END)
        return bool(stream.read().strip(b"\0")[-1:] in (b"\n", b"\r"))


def lines(path: Path, declared: str | None = None) -> Iterator[str]:
    """The lines of a text file, whatever ends them."""
    encoding = encoding_of(path, declared)
    with content(path) as stream, io.TextIOWrapper(stream, encoding=encoding) as text:
        yield from text


def header_of(path: Path, delimiter: str | None = None, declared: str | None = None) -> Header:
    """Read the first line and choose the delimiter that gives the most columns."""
    line = first_line(path, declared)
    best = Header((), delimiter or DELIMITERS[0])
    for candidate in (delimiter,) if delimiter else DELIMITERS:
        try:
            held = io.StringIO(line, newline="")  # a blank may stand before a quotation mark
            columns = next(csv.reader(held, delimiter=candidate, skipinitialspace=True), [])
        except csv.Error:
            continue
        if len(columns) > len(best.columns):
            quoted = candidate != "\t" or '"' in line
            best = Header(_distinct(columns), candidate, quoted)
    if not any(best.columns):
        raise UnreadableTable("A table's file has no header", where=path.name)
    return best


def are_names(columns: Sequence[str]) -> bool:
    """Whether a first line may be shown: without header it would be a patient's row."""
    return not any(column[:1].isdigit() for column in columns)


def first_line(path: Path, declared: str | None = None) -> str:
    """The first line of a text file, without byte-order mark; a quoted name may have a line end."""
    encoding = encoding_of(path, declared)
    with content(path) as stream:
        text = io.TextIOWrapper(stream, encoding=encoding, errors="surrogateescape")
        line = text.readline(_LONGEST_HEADER)
        whole = line
        for _ in range(_MOST_HEADER_LINES):
            if whole.count('"') % 2:
                whole += text.readline(_LONGEST_HEADER)
        line = line if whole.count('"') % 2 else whole
        text.detach()
    if any("\ud800" <= letter <= "\udfff" for letter in line):
        raise not_unicode(path.name)
    return line


def _distinct(columns: list[str]) -> tuple[str, ...]:
    """Column names made distinct: a second 'x' becomes 'x (2)', a blank one 'column 3'."""
    seen: dict[str, int] = {}
    names = []
    for position, column in enumerate(columns, start=1):
        name = " ".join(_UNSEEN.sub("", column).split()) or f"column {position}"
        seen[name.lower()] = seen.get(name.lower(), 0) + 1
        names.append(name if seen[name.lower()] == 1 else f"{name} ({seen[name.lower()]})")
    return tuple(names)
