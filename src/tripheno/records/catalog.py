"""What a place of tables answers: a folder of files, a DuckDB file, a database server."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from tripheno.errors import DoubtfulTable


class TableOrigin(Protocol):
    """Where tables come from: a folder of files, a DuckDB file, a database server."""

    title: str
    foreign: Sequence[str] = ()
    """Files that are no tables."""

    def names(self) -> list[str]:
        """The tables there are, in lower case."""

    def columns(self, name: str) -> dict[str, str]:
        """A table's columns as they are spelt, and their DuckDB types."""

    def relation(self, name: str, columns: Sequence[str]) -> str:
        """What to write after FROM to read these columns of a table."""

    def shown(self, name: str) -> str:
        """The table's name for people: a file's name, or schema and table."""

    def beside(self, name: str) -> Sequence[str]:  # noqa: ARG002  a database's table is whole
        """Tables that look like parts of this one and are none."""
        return ()

    def doubts(self, name: str) -> Sequence[str]:  # noqa: ARG002
        """What makes one doubt that the whole table was read."""
        return ()

    def kinds_held(self, name: str, column: str) -> set[str]:  # noqa: ARG002
        """What a column holds where its type does not tell: text, integer or real."""
        return set()

    def fingerprints(self, names: Sequence[str]) -> dict[str, str]:
        """What was read, for the provenance record."""


class Catalog(TableOrigin):
    """The tables of a database as it lists them: schema, table, column and type.

    With ``in_order`` the first schema that has a table wins, as on a search path.
    """

    def __init__(
        self, title: str, listed: Iterable[tuple[str, str, str, str]], *, in_order: bool = False
    ) -> None:
        self.title = title
        self._tables: dict[str, tuple[str, str]] = {}
        self._columns: dict[str, dict[str, str]] = {}
        self._twice = set()
        for schema, table, column, dtype in listed:
            key = table.lower()
            first = self._tables.setdefault(key, (schema, table))
            if first == (schema, table):
                self._columns.setdefault(key, {})[column] = dtype
            elif first[0] == schema or not in_order:
                self._twice.add(key)

    def names(self) -> list[str]:
        """Every table and view."""
        return list(self._tables)

    def columns(self, name: str) -> dict[str, str]:
        """The table's columns, and the DuckDB types they arrive in."""
        if name in self._twice:
            raise DoubtfulTable(
                f"Table '{name}' is there more than once",
                where=self.title,
                why="in several schemas, or under names that differ by capitals only",
                fix="name the schema that is meant with --schema, and keep one table of that name",
            )
        return self._columns[name]

    def shown(self, name: str) -> str:
        """The table's name."""
        return self._tables[name][1]
