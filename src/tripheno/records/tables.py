"""Which tables does the hospital have, and do they have the columns we need?

A source says what it needs in a short form, e.g. ``"subject_id:id starttime|startdate:time
stoptime|enddate:time? drug:text"``: a name (or several, the first found wins), a kind, and ``?``
when the column may be missing. Each table becomes a view in the schema ``src`` with exactly those
columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from tripheno.errors import (
    ContradictoryKeys,
    DoubtfulTable,
    MissingColumn,
    MissingTable,
    UnreadableTable,
)
from tripheno.records.duck import Workbench, identifier, literal
from tripheno.records.textfile import NOBODY, are_names


@dataclass(frozen=True)
class Column:
    """One column a source needs: names, kind and whether it must be there.

    Kinds are id, key (an id that tables are joined by), text, number, time, offset (minutes from a
    moment), and icd: a text that must never have been a number.
    """

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
        self.notes: list[str] = []
        self.key = "VARCHAR"
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

    def join_by_number(self, needs: Sequence[TableNeed]) -> None:
        """Keys stay whole numbers where all these tables have them so: one text among them, and
        all are text, because ``007`` is not ``7``.
        """
        types = [
            dtype.upper()
            for need in needs
            for name in need.names
            if name in self.origin.names()
            for column, dtype in self.origin.columns(name).items()
            if any(c.kind == "key" and column.lower() in c.names for c in need.columns)
        ]
        self.key = "BIGINT" if all(dtype in _WHOLE for dtype in types) else "VARCHAR"

    def open(self, need: TableNeed, *, optional: bool = False) -> bool:
        """Make the view of a table. An optional table that is missing becomes an empty view."""
        view = need.names[0]
        name = next((name for name in need.names if name in self.origin.names()), None)
        if name is None:
            if not optional:
                raise self._missing_table(view)
            empty = [f"{_EMPTY[self._kind(c)]} AS {c.names[0]}" for c in need.columns]
            self._create(view, empty, "")
            return False
        spelt = self.origin.columns(name)
        by_lower = {column.lower(): column for column in spelt}
        chosen, absent, expressions = [], [], []
        for column in need.columns:
            found = next((by_lower[n] for n in column.names if n in by_lower), None)
            if found is None:
                if column.required:
                    absent.append("' or '".join(column.names))
                expressions.append(f"{_EMPTY[self._kind(column)]} AS {identifier(column.names[0])}")
            else:
                chosen.append(found)
                self._note_rivals(name, column, found, by_lower)
                if _is_nested(spelt[found]):
                    raise self._not_a_value(name, found, spelt[found])
                if column.kind == "icd" and not spelt[found].upper().startswith(_TEXT):
                    raise self._numeric_codes(name, found, spelt[found])
                value = canonical(found, self._kind(column), spelt[found], self.bench.missing)
                expressions.append(f"{value} AS {identifier(column.names[0])}")
        if absent:
            raise self._missing_columns(name, absent, list(spelt))
        self._create(view, expressions, self.origin.relation(name, chosen))
        self.opened[view] = name
        unread = [f for f in getattr(self.origin, "foreign", []) if _stem(f) == name]
        if unread:
            self.notes.append(f"{self.shown(view)}: not read: {', '.join(unread[:5])}")
        return True

    def _kind(self, column: Column) -> str:
        whole = "whole" if self.key == "BIGINT" else "id"
        return whole if column.kind == "key" else column.kind

    def _note_rivals(
        self, name: str, column: Column, found: str, by_lower: Mapping[str, str]
    ) -> None:
        """Refuse a column that is there twice; say which of several names was read."""
        if f"{found.lower()} (2)" in by_lower:
            raise DoubtfulTable(
                f"Column '{found}' is there more than once",
                where=self.origin.shown(name),
                fix="keep the one that is meant",
            )
        rivals = [by_lower[n] for n in column.names if n in by_lower and by_lower[n] != found]
        if rivals:
            self.notes.append(
                f"{self.origin.shown(name)}: '{found}' is read, not {', '.join(rivals)}"
            )

    def unique(self, view: str, key: str) -> None:
        """Give a view one row per key: repetitions are noted, contradictions are refused."""
        if view not in self.opened:
            return
        name = f"src.{identifier(view)}"
        rows, different, keys = self.bench.rows(
            f"SELECT sum(n), count(*), count(DISTINCT {key}) FROM "  # noqa: S608
            f"(SELECT *, count(*) AS n FROM {name} WHERE {key} IS NOT NULL GROUP BY ALL)"
        )[0]
        if different > keys:
            raise ContradictoryKeys(
                f"{different - keys:,} rows contradict another with the same {key}",
                where=self.shown(view),
                fix="give every key one row, as in the source",
            )
        if rows is not None and rows > keys:
            self.notes.append(f"{self.shown(view)}: {rows - keys:,} rows repeat another, used once")
            self.bench.run(f"CREATE TABLE src.once AS SELECT DISTINCT * FROM {name}")  # noqa: S608
            self.bench.run(f"DROP VIEW {name}")
            self.bench.run(f"ALTER TABLE src.once RENAME TO {identifier(view)}")

    def _not_a_value(self, name: str, column: str, dtype: str) -> UnreadableTable:
        return UnreadableTable(
            f"Column '{column}' holds lists or records ({dtype})",
            where=self.origin.shown(name),
            why="a field has one value",
            fix="export one row per value, as text",
        )

    def _numeric_codes(self, name: str, column: str, dtype: str) -> UnreadableTable:
        return UnreadableTable(
            f"Column '{column}' holds ICD codes as numbers ({dtype})",
            where=self.origin.shown(name),
            why="leading zeros and points were lost: 008.45 is not 8.45",
            fix="export the column as text",
        )

    def _create(self, view: str, expressions: Sequence[str], relation: str) -> None:
        source = f"FROM {relation}" if relation else "WHERE false"
        listed = ", ".join(expressions)
        self.bench.run(f"CREATE OR REPLACE VIEW src.{identifier(view)} AS SELECT {listed} {source}")

    def _missing_table(self, name: str) -> MissingTable:
        found = self.origin.names()
        listed = ", ".join(sorted(found)[:12]) + (" …" if len(found) > 12 else "")
        foreign = getattr(self.origin, "foreign", [])
        unread = f"; not read: {', '.join(foreign[:5])}" if foreign else ""
        return MissingTable(
            f"No table '{name}'",
            where=self.origin.title,
            why=f"found instead: {listed or 'no tables at all'}{unread}",
            fix="check the path and the source named on the command line",
        )

    def _missing_columns(
        self, name: str, absent: Sequence[str], found: Sequence[str]
    ) -> MissingColumn:
        one = len(found) == 1
        listed = "found instead: " + ", ".join(found[:20]) + (" …" if len(found) > 20 else "")
        return MissingColumn(
            f"Table '{name}' has no column '" + "', '".join(absent) + "'",
            where=self.origin.shown(name),
            why=listed if are_names(found) else "its first line looks like data, not like a header",
            fix="is it written with another delimiter? , ; | and tab are understood"
            if one
            else "check that the file is the table it is named after; for `flat`, that site.toml "
            "names the columns as the file does",
        )


_EMPTY = {
    "id": "NULL::VARCHAR",
    "whole": "NULL::BIGINT",
    "text": "NULL::VARCHAR",
    "icd": "NULL::VARCHAR",
    "number": "NULL::DOUBLE",
    "offset": "NULL::DOUBLE",
    "time": "NULL::TIMESTAMP",
}
_EXACT = 2**53  # whole numbers up to here survive in a floating-point column
_TEXT = ("VARCHAR", "ENUM", "BLOB")
_WHOLE = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER")


def _is_nested(dtype: str) -> bool:
    return dtype.endswith("]") or dtype.upper().startswith(("STRUCT", "MAP", "UNION"))


def _stem(file: str) -> str:
    return file.lower().lstrip("~$").split(".")[0]


def canonical(column: str, kind: str, dtype: str, missing: Sequence[str]) -> str:
    """A column in its canonical type. What cannot be read as a number becomes NULL, as a time
    minus infinity: later steps count it apart from what is missing.
    """
    name, dtype = identifier(column), dtype.upper()
    if dtype.startswith(_TEXT):
        name = {"B": f"decode({name})", "E": f"CAST({name} AS VARCHAR)"}.get(dtype[0], name)
        words = [word.lower() for word in (*missing, *NOBODY)] if kind == "id" else missing
        spelt = f"lower(tidy({name}))" if kind == "id" else f"tidy({name})"
        listed = ", ".join(literal(word) for word in words)
        given, dtype = f"CASE WHEN {spelt} NOT IN ({listed}) THEN {name} END", "VARCHAR"
    else:
        given = name
    if kind in ("whole", "number"):
        return f"try_cast({given} AS {'BIGINT' if kind == 'whole' else 'DOUBLE'})"
    if kind == "offset":
        unread = f"CASE WHEN {given} IS NOT NULL THEN CAST('-infinity' AS DOUBLE) END"
        return f"coalesce(try_cast({given} AS DOUBLE), {unread})"
    if kind == "time":
        return _moment(given, dtype)
    if kind == "id" and (dtype in ("DOUBLE", "FLOAT") or dtype.startswith("DECIMAL")):
        return (
            f"CASE WHEN abs({name}) >= {_EXACT} THEN error('ids are rounded numbers') "
            f"WHEN isnan(CAST({name} AS DOUBLE)) THEN NULL "
            f"WHEN {name} = floor({name}) THEN CAST(CAST({name} AS BIGINT) AS VARCHAR) "
            f"ELSE CAST({name} AS VARCHAR) END"
        )
    if dtype != "VARCHAR":
        return f"CAST({name} AS VARCHAR)"
    return f"whole_id({given})" if kind == "id" else f"visible({given})"


def _moment(name: str, dtype: str) -> str:
    """A time as the wall clock showed it."""
    if dtype.startswith("TIMESTAMP WITH TIME ZONE"):
        return f"timezone(coalesce(getvariable('timezone'), 'UTC'), {name})"
    if dtype.startswith(("DATE", "TIMESTAMP")):
        return f"CAST({name} AS TIMESTAMP)"
    return f"wall_clock(CAST({name} AS VARCHAR))"
