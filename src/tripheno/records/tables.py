"""Which tables does the hospital have, and do they have the columns we need?

A source says what it needs in a short form, e.g. ``"subject_id:id starttime|startdate:time
stoptime|enddate:time? drug:text"``: a name (or several, the first found wins), a kind, and ``?``
when the column may be missing. Each table becomes a view in the schema ``src`` with exactly those
columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tripheno.errors import MissingColumn, MissingTable, NoSuchFile, UnknownRecords
from tripheno.provenance import file_fingerprint
from tripheno.records.delimited import csv_relation, header_of
from tripheno.records.duck import Workbench, identifier, literal

_SUFFIXES = (".parquet", ".csv.gz", ".csv", ".tsv.gz", ".tsv")
_SHARD_NAMES = ("part-", "part_", "data-", "data_")


@dataclass(frozen=True)
class Column:
    """One column a source needs: names, kind (id, text, number, time), whether it must be there."""

    names: tuple[str, ...]
    kind: str
    required: bool

    @classmethod
    def parse(cls, words: str) -> Column:
        """A column from its short form, ``startdate|starttime:time?``."""
        names, _, kind = words.partition(":")
        return cls(tuple(names.split("|")), kind.rstrip("?"), not kind.endswith("?"))


@dataclass(frozen=True)
class TableNeed:
    """A table a source needs. The first name is the view's; the others are looked for too."""

    names: tuple[str, ...]
    columns: tuple[Column, ...]

    @classmethod
    def of(cls, names: str, columns: str) -> TableNeed:
        """A need in its short form."""
        return cls(tuple(names.split("|")), tuple(Column.parse(word) for word in columns.split()))


class Origin(Protocol):
    """Where tables come from: a folder of files, a DuckDB file, a database server."""

    title: str

    def names(self) -> list[str]:
        """The tables there are, in lower case."""

    def columns(self, name: str) -> dict[str, str]:
        """A table's columns as they are spelt, and their DuckDB types."""

    def relation(self, name: str, columns: Sequence[str]) -> str:
        """What to write after FROM to read these columns of a table."""

    def shown(self, name: str) -> str:
        """The table's name for people: a file's name, or schema and table."""

    def fingerprints(self, names: Sequence[str]) -> dict[str, str]:
        """What was read, for the provenance record."""


class Tables:
    """The hospital's tables, opened one by one as views with the columns asked for."""

    def __init__(self, bench: Workbench, origin: Origin) -> None:
        self.bench, self.origin = bench, origin
        self.opened: dict[str, str] = {}
        bench.run("CREATE SCHEMA IF NOT EXISTS src")

    def has(self, *names: str) -> bool:
        """Whether one of these tables is there."""
        return any(name in self.origin.names() for name in names)

    def columns(self, name: str) -> set[str]:
        """A table's columns in lower case."""
        return {column.lower() for column in self.origin.columns(name)}

    def shown(self, view: str) -> str:
        """The name of the file or table behind a view."""
        return self.origin.shown(self.opened[view])

    def open(self, need: TableNeed, *, optional: bool = False) -> bool:
        """Make the view of a table. An optional table that is missing becomes an empty view."""
        view = need.names[0]
        name = next((name for name in need.names if name in self.origin.names()), None)
        if name is None:
            if not optional:
                raise self._missing_table(view)
            self._create(view, [f"{_EMPTY[c.kind]} AS {c.names[0]}" for c in need.columns], "")
            return False
        spelt = self.origin.columns(name)
        by_lower = {column.lower(): column for column in spelt}
        chosen, absent, expressions = [], [], []
        for column in need.columns:
            found = next((by_lower[n] for n in column.names if n in by_lower), None)
            if found is None:
                if column.required:
                    absent.append("' or '".join(column.names))
                expressions.append(f"{_EMPTY[column.kind]} AS {identifier(column.names[0])}")
            else:
                chosen.append(found)
                value = _expression(found, column.kind, spelt[found])
                expressions.append(f"{value} AS {identifier(column.names[0])}")
        if absent:
            raise self._missing_columns(name, absent, list(spelt))
        self._create(view, expressions, self.origin.relation(name, chosen))
        self.opened[view] = name
        return True

    def _create(self, view: str, expressions: Sequence[str], relation: str) -> None:
        source = f"FROM {relation}" if relation else "WHERE false"
        listed = ", ".join(expressions)
        self.bench.run(f"CREATE OR REPLACE VIEW src.{identifier(view)} AS SELECT {listed} {source}")

    def _missing_table(self, name: str) -> MissingTable:
        found = self.origin.names()
        listed = ", ".join(sorted(found)[:12]) + (" …" if len(found) > 12 else "")
        return MissingTable(
            f"No table '{name}'",
            where=self.origin.title,
            why=f"found instead: {listed or 'no tables at all'}",
            fix="check the path and the source named on the command line",
        )

    def _missing_columns(
        self, name: str, absent: Sequence[str], found: Sequence[str]
    ) -> MissingColumn:
        one = len(found) == 1
        return MissingColumn(
            f"Table '{name}' has no column '" + "', '".join(absent) + "'",
            where=self.origin.shown(name),
            why="found instead: " + ", ".join(found[:20]) + (" …" if len(found) > 20 else ""),
            fix="is it written with another delimiter? , ; | and tab are understood"
            if one
            else "check that the file is the table it is named after; for `flat`, that site.toml "
            "names the columns as the file does",
        )


_EMPTY = {
    "id": "NULL::VARCHAR",
    "text": "NULL::VARCHAR",
    "number": "NULL::DOUBLE",
    "time": "NULL::TIMESTAMP",
}


def _expression(column: str, kind: str, dtype: str) -> str:
    """A column in its canonical type; what cannot be read as that type becomes NULL."""
    name, dtype = identifier(column), dtype.upper()
    if kind == "number":
        return f"try_cast({name} AS DOUBLE)"
    if kind == "time":
        return _moment(name, dtype)
    if kind == "id" and (dtype in ("DOUBLE", "FLOAT") or dtype.startswith("DECIMAL")):
        return f"CAST(CAST({name} AS BIGINT) AS VARCHAR)"
    if dtype != "VARCHAR":
        return f"CAST({name} AS VARCHAR)"
    if kind == "id":
        return f"nullif(regexp_replace(trim({name}), '\\.0$', ''), '')"
    return f"nullif({name}, '')"


def _moment(name: str, dtype: str) -> str:
    """A time as the wall clock showed it."""
    if dtype.startswith("TIMESTAMP WITH TIME ZONE"):
        return f"timezone(coalesce(getvariable('timezone'), 'UTC'), {name})"
    if dtype.startswith(("DATE", "TIMESTAMP")):
        return f"CAST({name} AS TIMESTAMP)"
    return f"wall_clock(CAST({name} AS VARCHAR))"


class FolderOrigin:
    """A folder of CSV or Parquet files, its subfolders one level down, or one such file."""

    def __init__(self, bench: Workbench, path: Path) -> None:
        self._bench, self.title = bench, path.name or str(path)
        self._files: dict[str, list[Path]] = {}
        for file in _files_in(path):
            shard = file.name.lower().startswith(_SHARD_NAMES)
            name = table_name(file.parent.name + ".parquet" if shard else file.name)
            kept = self._files.setdefault(name, [])
            if not kept or (shard and kept[0].parent == file.parent):
                kept.append(file)
        self._columns: dict[str, dict[str, str]] = {}

    def names(self) -> list[str]:
        """Every file that can be a table."""
        return list(self._files)

    def columns(self, name: str) -> dict[str, str]:
        """The header of a CSV file (all text), or the schema of a Parquet file."""
        if name not in self._columns:
            file = self._files[name][0]
            if file.suffix.lower() == ".parquet":
                rows = self._bench.rows(f"DESCRIBE FROM {self.relation(name, ())}")
                self._columns[name] = {row[0]: row[1] for row in rows}
            else:
                self._columns[name] = dict.fromkeys(header_of(file).columns, "VARCHAR")
        return self._columns[name]

    def relation(self, name: str, columns: Sequence[str]) -> str:
        """A call of DuckDB's own reader."""
        del columns  # DuckDB reads only the columns that the view asks for
        files = self._files[name]
        if files[0].suffix.lower() == ".parquet":
            return f"read_parquet([{', '.join(literal(str(file)) for file in files)}])"
        return csv_relation(files[0])

    def shown(self, name: str) -> str:
        """The file's name."""
        files = self._files[name]
        return files[0].name if len(files) == 1 else f"{files[0].parent.name}/ ({len(files)} files)"

    def fingerprints(self, names: Sequence[str]) -> dict[str, str]:
        """SHA-256 of every file read."""
        return {file.name: file_fingerprint(file) for name in names for file in self._files[name]}


class DuckDBOrigin:
    """A DuckDB database file, opened read-only."""

    def __init__(self, bench: Workbench, path: Path) -> None:
        self._path, self._bench, self.title = path, bench, path.name
        bench.run(f"ATTACH {literal(str(path))} AS origin (READ_ONLY)")
        rows = bench.rows(
            "SELECT schema_name, table_name, column_name, data_type FROM duckdb_columns() "
            "WHERE database_name = 'origin' AND NOT internal ORDER BY column_index"
        )
        self._tables: dict[str, tuple[str, str]] = {}
        self._columns: dict[str, dict[str, str]] = {}
        for schema, table, column, dtype in rows:
            if self._tables.setdefault(table.lower(), (schema, table)) == (schema, table):
                self._columns.setdefault(table.lower(), {})[column] = dtype

    def names(self) -> list[str]:
        """Every table and view of the database."""
        return list(self._tables)

    def columns(self, name: str) -> dict[str, str]:
        """The table's columns and types."""
        return self._columns[name]

    def relation(self, name: str, columns: Sequence[str]) -> str:
        """The table under its full name."""
        del columns
        schema, table = self._tables[name]
        return f"origin.{identifier(schema)}.{identifier(table)}"

    def shown(self, name: str) -> str:
        """The table's name."""
        return self._tables[name][1]

    def fingerprints(self, names: Sequence[str]) -> dict[str, str]:
        """SHA-256 of the database file."""
        return {self._path.name: file_fingerprint(self._path)} if names else {}


def origin_of(bench: Workbench, path: Path) -> Origin:
    """The origin that fits a path."""
    if not path.exists():
        raise NoSuchFile(f"No file or folder {path}", fix="check the path, from where you are")
    if path.is_file() and path.suffix.lower() in (".duckdb", ".db", ".ddb"):
        return DuckDBOrigin(bench, path)
    origin = FolderOrigin(bench, path)
    if not origin.names():
        raise UnknownRecords(
            f"No tables in {path.name}", why="looked for " + ", ".join(_SUFFIXES) + " and .duckdb"
        )
    return origin


def table_name(file: str) -> str:
    """The table that a file's name stands for: lower case, without suffixes."""
    lower = file.lower()
    return lower.removesuffix(next((end for end in _SUFFIXES if lower.endswith(end)), ""))


def _files_in(path: Path) -> list[Path]:
    """Readable files, Parquet before CSV, so that a table exported twice is read once."""
    found = [path] if path.is_file() else [*path.glob("*"), *path.glob("*/*")]
    readable = [f for f in found if f.is_file() and f.name.lower().endswith(_SUFFIXES)]
    order = {suffix: rank for rank, suffix in enumerate(_SUFFIXES)}
    return sorted(
        readable,
        key=lambda f: (order[next(s for s in _SUFFIXES if f.name.lower().endswith(s))], str(f)),
    )
