"""Which tables does the hospital have, and do they have the columns we need?

A source says what it needs in a short form, e.g. ``"subject_id:id starttime|startdate:time
stoptime|enddate:time? drug:text"``: a name (or several, the first found wins), a kind, and ``?``
when the column may be missing. Each table becomes a view in the schema ``src`` with exactly those
columns.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tripheno.errors import (
    ContradictoryKeys,
    DoubtfulTable,
    MissingColumn,
    MissingTable,
    UnreadableTable,
)
from tripheno.records.catalog import TableOrigin
from tripheno.records.duck import Workbench, identifier, literal
from tripheno.records.textfile import NOBODY, are_names


@dataclass(frozen=True)
class Column:
    """One column a source needs: names, kind and whether it must be there.

    Kinds are id, key (an id that tables are joined by), text, number, time, offset (a number that
    is minus infinity when it cannot be read: minutes from a moment, a laboratory's bounds), code
    (no fraction) and icd: a text that must never have been a number.
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


class Tables:
    """The hospital's tables, opened one by one as views with the columns asked for."""

    def __init__(self, bench: Workbench, origin: TableOrigin) -> None:
        self.bench, self.origin = bench, origin
        self.opened: dict[str, str] = {}
        self._notes: list[str] = []
        self.key = "VARCHAR"
        bench.run("CREATE SCHEMA IF NOT EXISTS src")

    def note(self, *seen: str) -> None:
        """Something seen on the way."""
        self._notes += seen

    @property
    def notes(self) -> list[str]:
        """What was seen on the way, and the files that look like parts of a table but are none."""
        taken = set(self.opened.values())
        unread = {
            name: [self.origin.shown(other) for other in self.origin.beside(name)
                   if other not in taken]
            for name in taken
        }  # fmt: skip
        return self._notes + [
            f"{self.origin.shown(name)}: not read: {', '.join(others[:5])}"
            for name, others in sorted(unread.items())
            if others
        ]

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
        """Keys are whole numbers where all these tables have them so; text is tried (and read again
        as text if one of them is a word, because ``007`` is not ``7``).
        """
        types = [
            dtype.upper()
            for need in needs
            for name in need.names
            if name in self.origin.names()
            for column, dtype in self.origin.columns(name).items()
            if any(c.kind == "key" and column.lower() in c.names for c in need.columns)
        ]
        tried = (*_WHOLE, *_TEXT) if self.bench.whole_keys else _WHOLE
        self.key = "BIGINT" if all(dtype.startswith(tried) for dtype in types) else "VARCHAR"

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
        read: dict[str, tuple[str, str]] = {}
        absent, expressions = [], []
        for column in need.columns:
            found = next((by_lower[n] for n in column.names if n in by_lower), None)
            if found is None:
                if column.required:
                    absent.append("' or '".join(column.names))
                expressions.append(f"{_EMPTY[self._kind(column)]} AS {identifier(column.names[0])}")
            else:
                self._note_rivals(name, column, found, by_lower)
                if _is_nested(spelt[found]):
                    raise self._not_a_value(name, found, spelt[found])
                if column.kind in ("icd", "code"):
                    self._refuse_numbers(name, found, column.kind)
                read[found] = (self._kind(column), spelt[found])
                value = canonical(found, *read[found])
                expressions.append(f"{value} AS {identifier(column.names[0])}")
        if absent:
            raise self._missing_columns(name, absent, list(spelt))
        relation = cleaned(self.origin.relation(name, list(read)), read, self.bench.missing)
        self._create(view, expressions, relation)
        self.opened[view] = name
        self._notes += self.origin.doubts(name)
        unread = [f for f in self.origin.foreign if name in f.lower()]
        if unread:
            self._notes.append(f"{self.shown(view)}: not read: {', '.join(unread[:5])}")
        return True

    def _kind(self, column: Column) -> str:
        whole = "whole" if self.key == "BIGINT" else "id"
        return whole if column.kind == "key" else column.kind

    def _note_rivals(
        self, name: str, column: Column, found: str, by_lower: Mapping[str, str]
    ) -> None:
        """Refuse a column that is there twice; say which of several names was read."""
        alike = [c for c in self.origin.columns(name) if c.lower() == found.lower()]
        if len(alike) > 1 or f"{found.lower()} (2)" in by_lower:
            raise DoubtfulTable(
                f"Column '{found}' is there more than once",
                where=self.origin.shown(name),
                fix="keep the one that is meant",
            )
        rivals = [by_lower[n] for n in column.names if n in by_lower and by_lower[n] != found]
        if rivals:
            self._notes.append(
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
            self._notes.append(
                f"{self.shown(view)}: {rows - keys:,} rows repeat another, used once"
            )
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

    def _refuse_numbers(self, name: str, column: str, kind: str) -> None:
        """Refuse codes that were numbers once: of any kind for ICD, else with a fraction."""
        dtype = self.origin.columns(name)[column]
        held = self.origin.kinds_held(name, column)
        fraction = _is_fraction(dtype) or "real" in held
        whole = "integer" in held or not dtype.upper().startswith(_TEXT)
        if fraction or (whole and kind == "icd"):
            raise UnreadableTable(
                f"Column '{column}' holds codes as numbers",
                where=self.origin.shown(name),
                why="leading zeros and points were lost: 008.45 is not 8.45",
                fix="export the column as text",
            )

    def _create(self, view: str, expressions: Sequence[str], relation: str) -> None:
        source = f"FROM {relation}" if relation else "WHERE false"
        selected = ", ".join(expressions)
        self.bench.run(
            f"CREATE OR REPLACE VIEW src.{identifier(view)} AS SELECT {selected} {source}"
        )

    def _missing_table(self, name: str) -> MissingTable:
        found = self.origin.names()
        listed = ", ".join(sorted(found)[:12]) + (" …" if len(found) > 12 else "")
        foreign = self.origin.foreign
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
        one = len(found) == 1 and not found[0].isidentifier()
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
    "code": "NULL::VARCHAR",
    "icd": "NULL::VARCHAR",
    "number": "NULL::DOUBLE",
    "offset": "NULL::DOUBLE",
    "time": "NULL::TIMESTAMP",
}
_EXACT = 2**53  # whole numbers up to here survive in a floating-point column
_TEXT = ("VARCHAR", "ENUM", "BLOB")
_IDS = ("id", "whole")
_FIGURES = re.compile(r"[-\d.:T ]*\d[-\d.:T ]*")  # a missing word that might be taken for a value
_PLAIN = {"id": "plain_id", "whole": "plain_number", "time": "plain_time",
          "number": "plain_value", "offset": "plain_value"}  # fmt: skip
_WHOLE = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER")


def _is_fraction(dtype: str) -> bool:
    return dtype.upper().startswith(("DOUBLE", "FLOAT", "DECIMAL"))


def _is_nested(dtype: str) -> bool:
    return dtype.endswith("]") or dtype.upper().startswith(("STRUCT", "MAP", "UNION"))


def cleaned(relation: str, columns: Mapping[str, tuple[str, str]], missing: Sequence[str]) -> str:
    """The relation with its text columns (name → kind and type) as people see them, and words that
    mean nothing as NULL. What is written plainly, as nearly all is, stands in a column of its own,
    so that the later steps only see the rest. Each step is a query of its own: a macro works out
    what it is given again at every place where it uses it.
    """
    plain, seen, given = [], [], []
    for column, (kind, dtype) in columns.items():
        if not dtype.upper().startswith(_TEXT):
            continue
        name = identifier(column)
        read = {"B": f"decode({name})", "E": f"CAST({name} AS VARCHAR)"}.get(dtype[0].upper(), name)
        if kind in _PLAIN:
            figures = [word for word in missing if _FIGURES.fullmatch(word)]
            asked = f"NOT {_one_of(read, figures)}" if figures else "true"
            found = f"CASE WHEN {asked} THEN {_PLAIN[kind]}({read}) END"
            plain.append(f"{found} AS {_plain(column)}")
            read = f"CASE WHEN {_plain(column)} IS NULL THEN {read} END"
        seen.append(f"unquoted(visible({read})) AS {name}")
        kept = name if kind in ("text", "icd", "code") else f"trim({name})"
        meant = f"NOT {_one_of(f'trim({name})', missing)}"
        if kind in _IDS:
            header = [column] if len(column) > 1 else []  # it stands again where files were joined
            words = [word.lower() for word in (*missing, *NOBODY, *header)]
            meant = f"NOT {_one_of(f'lower(trim({name}))', words)} AND is_word({name})"
        given.append(f"CASE WHEN {name} IS NULL THEN NULL WHEN {meant} THEN {kept} END AS {name}")
    if not seen:
        return relation
    inner = f"(SELECT {', '.join(['*', *plain])} FROM {relation})"  # noqa: S608
    inner = f"(SELECT * REPLACE ({', '.join(seen)}) FROM {inner})"  # noqa: S608
    return f"(SELECT * REPLACE ({', '.join(given)}) FROM {inner})"  # noqa: S608


def _one_of(text: str, words: Sequence[str]) -> str:
    """Whether a text is one of these words. DuckDB would make a join of a long IN (…), which every
    row has to pass; a pattern is asked only where a CASE comes to it.
    """
    return f"regexp_full_match({text}, {literal('|'.join(map(re.escape, dict.fromkeys(words))))})"


def canonical(column: str, kind: str, dtype: str) -> str:
    """A cleaned column in its canonical type. What cannot be read as a number becomes NULL, as a
    time minus infinity: later steps count it apart from what is missing.
    """
    value = _typed(identifier(column), kind, dtype.upper())
    written = kind in _PLAIN and dtype.upper().startswith(_TEXT)
    return f"coalesce({_plain(column)}, {value})" if written else value


def _plain(column: str) -> str:
    return identifier(f"{column}, plainly written")


def _typed(name: str, kind: str, dtype: str) -> str:
    is_text = dtype.startswith(_TEXT)
    if kind == "whole":
        return f"whole_number(whole_id({name}))" if is_text else f"CAST({name} AS BIGINT)"
    if kind in ("number", "offset"):
        unread = f", CASE WHEN {name} IS NOT NULL THEN CAST('-infinity' AS DOUBLE) END"
        number = f"coalesce(try_cast({name} AS DOUBLE){unread if kind == 'offset' else ''})"
        return _but_nan(number)
    if kind == "time":
        return f"clock({name})" if is_text else _moment(name, dtype)
    if kind == "id" and _is_fraction(dtype):
        return (
            f"CASE WHEN {_but_nan(f'CAST({name} AS DOUBLE)')} IS NULL THEN NULL "
            f"WHEN abs({name}) >= {_EXACT} THEN error('ids are rounded numbers') "
            f"WHEN {name} = floor({name}) THEN CAST(try_cast({name} AS BIGINT) AS VARCHAR) "
            f"ELSE CAST({name} AS VARCHAR) END"
        )
    if not is_text:
        return f"CAST({name} AS VARCHAR)"
    return f"whole_id({name})" if kind == "id" else name


def _but_nan(number: str) -> str:
    """A number, NaN as NULL: DuckDB holds NaN for larger than all others."""
    return f"CASE WHEN NOT isnan({number}) THEN {number} END"


def _moment(name: str, dtype: str) -> str:
    """A time as the wall clock showed it."""
    if dtype.startswith("TIMESTAMP WITH TIME ZONE"):
        return f"timezone(coalesce(getvariable('timezone'), 'UTC'), {name})"
    if dtype.startswith(("DATE", "TIMESTAMP")):
        return f"CAST({name} AS TIMESTAMP)"
    return f"wall_clock(CAST({name} AS VARCHAR))"
