"""A hospital's database: its tables stream through an Arrow driver (ADBC) into the workbench.

Only the columns that a source asks for leave the server, and only the vocabulary rows that its
records need. The address is never written anywhere: it may hold a password.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tripheno.errors import (
    DatabaseUnreachable,
    MissingExtra,
    SettingsError,
    UnreadableTable,
)
from tripheno.records.catalog import Catalog
from tripheno.records.duck import Workbench, identifier, sql_text

_CONCEPTS_OF = {
    "drug_exposure": "drug_concept_id",
    "condition_occurrence": "condition_concept_id",
    "procedure_occurrence": "procedure_concept_id",
    "measurement": "measurement_concept_id",
}
_TITLES = {
    "postgresql": "PostgreSQL",
    "sqlite": "SQLite",
    "snowflake": "Snowflake",
    "bigquery": "BigQuery",
}
_ADDRESS = re.compile(r"(postgres(?:ql)?|snowflake|bigquery)://|(sqlite):")
_OTHER = re.compile(r"([A-Za-z][\w+.-]+):(?://|\w+:)")  # C:\ is a folder
_NUMERIC = ("INT", "BIGINT", "SMALLINT", "REAL", "NUM", "FLOAT", "DOUBLE", "DECIMAL")
_HIDES = "SELECT row_security_active($1::text)"
_HELD = "SELECT DISTINCT typeof({}) FROM {}"  # SQLite makes 8.45 of 008.45 by the name of a type
Listed = Iterator[tuple[str, str, str, str]]


def is_address(path: str) -> bool:
    """Whether a path is the address of a database; one of a kind nobody reads is refused unsaid."""
    if _ADDRESS.match(path):
        return True
    if other := _OTHER.match(path):
        raise SettingsError(
            f"'{other[1]}' is no address that can be read",
            why="known: postgresql://, sqlite:, snowflake://, bigquery://",
            fix="export the tables as Parquet or CSV, or into a DuckDB file",
        )
    return False


def database_origin(bench: Workbench, address: str, schema: str | None) -> DatabaseOrigin:
    """Connect and list the tables of a schema, or of the schemas on the search path."""
    match = _ADDRESS.match(address)
    assert match is not None
    name = (
        (match[1] or match[2]).replace("postgresql", "postgres").replace("postgres", "postgresql")
    )
    connection = _connect(name, re.sub("^sqlite:(//)?", "", address))
    return DatabaseOrigin(bench, connection, name, schema)


def _connect(name: str, address: str) -> Any:
    try:
        driver = importlib.import_module(f"adbc_driver_{name}.dbapi")
    except ImportError:
        extra = "postgres" if name == "postgresql" else name
        known = extra in ("postgres", "sqlite")
        fix = f"pip install 'tripheno[{extra}]'" if known else f"pip install adbc-driver-{name}"
        raise MissingExtra(f"{_TITLES[name]} needs an extra", fix=fix) from None
    try:
        return driver.connect(address)
    except driver.Error as fault:
        raise DatabaseUnreachable(
            f"The {_TITLES[name]} database does not let us in",
            why=_reason(str(fault)),
            fix="check address, database, user and password; try the same address with its client",
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
        ("permission denied", "the user may not read a table"),
        ("no pg_hba.conf entry", "the server does not allow this host or user"),
    ):
        if sign in message:
            return words
    return "the server answered with an error"


def _postgres_columns(connection: Any, schema: str | None) -> Listed:
    with connection.cursor() as cursor:
        cursor.execute(sql_text("postgres_columns"), parameters=(schema,))
        yield from cursor.fetchall()


def _all_columns(connection: Any, schema: str | None) -> Listed:
    """What any driver can list. Every column is fetched as text; a declared type only tells whether
    codes were ever numbers.
    """
    for catalog in connection.adbc_get_objects(depth="columns").read_all().to_pylist():
        for part in catalog["catalog_db_schemas"] or ():
            name = part["db_schema_name"] or ""
            if schema is not None and name.lower() != schema.lower():
                continue
            for table in part["db_schema_tables"] or ():
                for column in table["table_columns"] or ():
                    declared = str(column["xdbc_type_name"]).upper()
                    dtype = "a number" if declared.startswith(_NUMERIC) else "text"
                    yield name, table["table_name"], column["column_name"], dtype


class DatabaseOrigin(Catalog):
    """The tables of one database."""

    def __init__(self, bench: Workbench, connection: Any, name: str, schema: str | None) -> None:
        self._bench, self._connection, self._name = bench, connection, name
        self.title, self._copies = _TITLES[name], 0  # an error may need the title before all else
        bench.at_close.append(connection.close)
        listing = _postgres_columns if name == "postgresql" else _all_columns
        with self._translated():
            listed = list(listing(connection, schema))
        self._numeric = {
            (table.lower(), column) for _, table, column, d in listed if d == "a number"
        }
        typed = ((s, t, c, _DUCK_TYPES.get(dtype, "VARCHAR")) for s, t, c, dtype in listed)
        super().__init__(_TITLES[name], typed, in_order=name == "postgresql")

    def relation(self, name: str, columns: Sequence[str]) -> str:
        """Fetch these columns into the workbench and name the copy."""
        types = self._columns[name]
        wanted = ", ".join(self._fetched(c, types[c]) for c in columns)
        query = f"SELECT {wanted} FROM {self._full_name(name)} AS given{self._needed(name)}"  # noqa: S608
        self._copies += 1  # a table may be opened twice, each time for other columns
        copy = f"copy_{self._copies}_of_{name}"
        with self._translated(), self._connection.cursor() as cursor:
            cursor.execute(query)
            self._bench.take(identifier(copy), cursor.fetch_record_batch())
        return identifier(copy)

    def doubts(self, name: str) -> Sequence[str]:
        """Whether the server hides rows from this user."""
        if self._name != "postgresql":
            return ()
        with self._translated(), self._connection.cursor() as cursor:
            cursor.execute(_HIDES, parameters=(self._full_name(name),))
            ((hides,),) = cursor.fetchall()
        words = f"{self.shown(name)}: row-level security is on: rows may be hidden from this user"
        return (words,) if hides else ()

    def kinds_held(self, name: str, column: str) -> set[str]:
        """What a column holds where its type does not tell: text, integer or real."""
        if self._name == "sqlite":
            asked = _HELD.format(self._quoted(column), self._full_name(name))
            with self._translated(), self._connection.cursor() as cursor:
                cursor.execute(asked)
                return {str(kind) for (kind,) in cursor.fetchall()}
        return {"integer"} if (name, column) in self._numeric else set()

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """What the driver complains of, without its words: they may quote a row."""
        try:
            yield
        except (self._connection.Error, UnreadableTable) as fault:  # also on its way into DuckDB
            damaged = "malformed" in str(fault) or "not a database" in str(fault)
            raise UnreadableTable(
                f"The {self.title} database cannot be read",
                why="the file is damaged or cut off" if damaged else _reason(str(fault)),
                fix="try the same tables with the database's own client",
            ) from None

    def fingerprints(self, names: Sequence[str]) -> dict[str, str]:
        """A server's tables change under our eyes: only their names are recorded."""
        return {self._tables[name][1]: self.title for name in names}

    def _fetched(self, column: str, dtype: str) -> str:
        if self._name == "postgresql":
            return f"{self._quoted(column)}{_CASTS[dtype]}"
        kind = {"bigquery": "STRING", "sqlite": "TEXT"}.get(self._name, "VARCHAR")
        return f"CAST({self._quoted(column)} AS {kind}) AS {self._quoted(column)}"

    def _quoted(self, name: str) -> str:
        return f"`{name}`" if self._name == "bigquery" else identifier(name)

    def _full_name(self, name: str) -> str:
        return ".".join(self._quoted(part) for part in self._tables[name] if part)

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
    "ARRAY": "VARCHAR[]",
    "smallint": "BIGINT",
    "integer": "BIGINT",
    "bigint": "BIGINT",
    "numeric": "DOUBLE",
    "real": "DOUBLE",
    "double precision": "DOUBLE",
    "date": "TIMESTAMP",  # it may be infinite
    "timestamp without time zone": "TIMESTAMP",
    "timestamp with time zone": "TIMESTAMP WITH TIME ZONE",
}
_CASTS = {
    "BIGINT": "::bigint",
    "DOUBLE": "::double precision",
    "TIMESTAMP": "::timestamp",
    "TIMESTAMP WITH TIME ZONE": "::timestamptz",
    "VARCHAR": "::text",
}
