"""A hospital's PostgreSQL: its tables stream through ADBC into the workbench, column by column.

Only the columns that a source asks for leave the server, and only the vocabulary rows that its
records need. The address is never written anywhere: it may hold a password.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from tripheno.errors import DatabaseUnreachable, MissingExtra
from tripheno.records.duck import Workbench, identifier, sql_text

_CONCEPTS_OF = {
    "drug_exposure": "drug_concept_id",
    "condition_occurrence": "condition_concept_id",
    "procedure_occurrence": "procedure_concept_id",
    "measurement": "measurement_concept_id",
}


def is_postgres(path: str) -> bool:
    """Whether a path is the address of a PostgreSQL server."""
    return re.match(r"postgres(ql)?://", path) is not None


def postgres_origin(bench: Workbench, address: str, schema: str | None) -> PostgresOrigin:
    """Connect and list the tables of a schema, or of the schemas on the search path."""
    return PostgresOrigin(bench, _connect(address), schema)


def _connect(address: str) -> Any:
    try:
        from adbc_driver_postgresql import dbapi  # noqa: PLC0415 - an optional extra
    except ImportError:
        raise MissingExtra(
            "PostgreSQL needs an extra", fix="pip install 'tripheno[postgres]'"
        ) from None
    try:
        return dbapi.connect(address)
    except dbapi.Error as fault:
        raise DatabaseUnreachable(
            "The PostgreSQL server does not let us in",
            why=_reason(str(fault)),
            fix="check address, database, user and password; try the same address with psql",
        ) from None


def _reason(message: str) -> str:
    """The kind of trouble, without the address or the user's name."""
    for sign, words in (
        ("password authentication failed", "the password is wrong"),
        ("does not exist", "no such user or database"),
        ("Connection refused", "nothing listens at this address"),
        ("could not translate host name", "the host's name is unknown"),
        ("timeout", "it did not answer in time"),
        ("No such file", "nothing listens at this address"),
        ("no pg_hba.conf entry", "the server does not allow this host or user"),
    ):
        if sign in message:
            return words
    return "the connection failed"


class PostgresOrigin:
    """The tables of one PostgreSQL database."""

    def __init__(self, bench: Workbench, connection: Any, schema: str | None) -> None:
        self._bench, self._connection = bench, connection
        self.title = "PostgreSQL"
        with connection.cursor() as cursor:
            cursor.execute(sql_text("postgres_columns"), parameters=(schema,))
            listed = cursor.fetchall()
        self._tables: dict[str, tuple[str, str]] = {}
        self._columns: dict[str, dict[str, str]] = {}
        for schema_name, table, column, dtype in listed:
            if self._tables.setdefault(table.lower(), (schema_name, table)) == (schema_name, table):
                self._columns.setdefault(table.lower(), {})[column] = _DUCK_TYPES.get(
                    dtype, "VARCHAR"
                )

    def close(self) -> None:
        """Hang up: everything asked for has been copied."""
        self._connection.close()

    def names(self) -> list[str]:
        """The tables on the search path."""
        return list(self._tables)

    def columns(self, name: str) -> dict[str, str]:
        """The table's columns, and the DuckDB types they arrive in."""
        return self._columns[name]

    def relation(self, name: str, columns: Sequence[str]) -> str:
        """Fetch these columns into the workbench and name the copy."""
        types = self._columns[name]
        wanted = ", ".join(f"{identifier(c)}{_CASTS[types[c]]}" for c in columns)
        query = f"SELECT {wanted} FROM {self._full_name(name)} AS given{self._needed(name)}"  # noqa: S608
        copy = f"copy_of_{name}"
        with self._connection.cursor() as cursor:
            cursor.execute(query)
            self._bench.take(identifier(copy), cursor.fetch_record_batch())
        return identifier(copy)

    def shown(self, name: str) -> str:
        """The table's name."""
        return self._tables[name][1]

    def fingerprints(self, names: Sequence[str]) -> dict[str, str]:
        """A server's tables change under our eyes: only their names are recorded."""
        return {self._tables[name][1]: "PostgreSQL" for name in names}

    def _full_name(self, name: str) -> str:
        schema, table = self._tables[name]
        return f"{identifier(schema)}.{identifier(table)}"

    def _needed(self, name: str) -> str:
        """Vocabularies have millions of rows: take those that the records refer to."""
        users = [
            (t, c) for t, c in _CONCEPTS_OF.items() if c in map(str.lower, self._columns.get(t, ()))
        ]
        if name == "concept_ancestor":
            key, users = "descendant_concept_id", users[:1]
        elif name == "concept":
            key = "concept_class_id = 'Ingredient' OR concept_id"
        else:
            return ""
        used = " UNION ".join(f"SELECT {c} FROM {self._full_name(t)}" for t, c in users)  # noqa: S608
        return f" WHERE {key} IN ({used})" if users else ""


_DUCK_TYPES = {
    "smallint": "BIGINT",
    "integer": "BIGINT",
    "bigint": "BIGINT",
    "numeric": "DOUBLE",
    "real": "DOUBLE",
    "double precision": "DOUBLE",
    "date": "DATE",
    "timestamp without time zone": "TIMESTAMP",
    "timestamp with time zone": "TIMESTAMP WITH TIME ZONE",
}
_CASTS = {
    "BIGINT": "::bigint",
    "DOUBLE": "::double precision",
    "DATE": "::date",
    "TIMESTAMP": "::timestamp",
    "TIMESTAMP WITH TIME ZONE": "::timestamptz",
    "VARCHAR": "::text",
}
