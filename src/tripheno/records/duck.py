"""DuckDB in bounded memory: reads the hospital's tables, joins them and streams the result.

It works in a private folder that holds what does not fit into memory and is removed at the end.
Nothing is fetched from a network: DuckDB's loadable extensions are switched off.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any, Self

import duckdb
import pyarrow as pa

from tripheno.errors import DiskFailed, RunFailed, SettingsError, UnreadableTable
from tripheno.records.textfile import MISSING

BATCH_ROWS = 122_880


def sql_text(name: str) -> str:
    """One of the package's SQL files, by name without suffix."""
    return files("tripheno.records").joinpath("sql", f"{name}.sql").read_text(encoding="utf-8")


def literal(text: str) -> str:
    """A text as an SQL literal."""
    return "'" + text.replace("'", "''") + "'"


def literals(texts: Iterable[str]) -> str:
    """Texts as the members of an SQL list."""
    return ", ".join(map(literal, texts))


def identifier(name: str) -> str:
    """A name as a quoted SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


class Workbench:
    """One DuckDB that never takes more memory than it was given.

    ``timezone`` is the hospital's zone: times written with an offset are read as its wall clock.
    Without it the wall clock is taken as it was written. ``encoding`` is that of text files without
    byte-order mark, ``missing`` the words that mean nothing, ``date_order`` what 03/04/2020 means.
    With ``whole_keys`` written keys are tried as numbers, which join and sort faster.
    """

    def __init__(
        self,
        folder: Path,
        *,
        memory: str = "700MB",
        timezone: str | None = None,
        encoding: str | None = None,
        missing: Sequence[str] = MISSING,
        date_order: str | None = None,
        threads: int = 0,
        whole_keys: bool = True,
    ) -> None:
        self.encoding, self.missing, self.whole_keys = encoding, tuple(missing), whole_keys
        self.at_close: list[Callable[[], None]] = []
        self.folder = Path(tempfile.mkdtemp(prefix="work-", dir=folder))
        with translated():
            self._connection = duckdb.connect(
                str(self.folder / "work.duckdb"),
                config={"autoinstall_known_extensions": False, "autoload_known_extensions": False},
            )
        try:
            self.run(f"SET memory_limit = {literal(memory)}")
        except duckdb.Error:
            self.close()
            raise SettingsError(
                f"'{memory}' is not an amount of memory", fix="write it as 500MB or 4GB"
            ) from None
        self.run(f"SET temp_directory = {literal(str(self.folder / 'spill'))}")
        self.run("SET preserve_insertion_order = false")
        # it trusts the bounds in a Parquet file, which leave NaN out, and takes NaN for a number
        self.run("SET disabled_optimizers = 'statistics_propagation'")
        self.run("SET TimeZone = 'UTC'")
        self.run("SET enable_progress_bar = false")  # it would write into the results
        self.run("SET enable_progress_bar_print = false")
        if threads:
            self.run(f"SET threads = {int(threads)}")
        self.run("SET VARIABLE timezone = CAST($timezone AS VARCHAR)", timezone=timezone)
        self.run("SET VARIABLE date_order = CAST($order AS VARCHAR)", order=date_order)
        self.run("SET VARIABLE missing = CAST($words AS VARCHAR[])", words=list(self.missing))
        self.script("macros")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_ending: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the database and remove its folder, whatever became of the work."""
        self._connection.close()
        for hang_up in self.at_close:
            hang_up()
        shutil.rmtree(self.folder, ignore_errors=True)

    def run(self, sql: str, **parameters: Any) -> None:
        """Run one statement; its parameters are bound, never pasted."""
        with translated():
            self._connection.execute(sql, parameters or None)

    def rows(self, sql: str, **parameters: Any) -> list[tuple[Any, ...]]:
        """All rows of a small answer."""
        with translated():
            return list(self._connection.execute(sql, parameters or None).fetchall())

    def script(self, name: str) -> None:
        """Run the statements of one of the package's SQL files."""
        for statement in sql_text(name).split(";\n"):
            if statement.strip():
                self.run(statement)

    def take(self, name: str, table: pa.Table | pa.RecordBatchReader) -> None:
        """Store an Arrow table, or a stream of batches, as a table of the workbench."""
        self._connection.register("arriving", table)
        try:
            self.run(f"CREATE OR REPLACE TABLE {name} AS SELECT * FROM arriving")  # noqa: S608
        finally:
            self._connection.unregister("arriving")

    def keep(self, query: str, name: str, **parameters: Any) -> Path:
        """Put the answer aside in a file of the workbench's folder."""
        path = self.folder / f"{name}.parquet"
        self.run(f"COPY ({query}) TO {literal(str(path))} (FORMAT parquet)", **parameters)
        return path

    def view(self, name: str, kept: Sequence[Path]) -> None:
        """One view of what was put aside."""
        reader = f"read_parquet([{literals(map(str, kept))}], union_by_name = true)"
        self.run(f"CREATE OR REPLACE VIEW {name} AS FROM {reader}")

    def stream(self, sql: str) -> Iterator[pa.RecordBatch]:
        """The answer in batches: no more than a few of them are in memory at a time."""
        with translated():
            yield from self._connection.sql(sql).to_arrow_reader(BATCH_ROWS)


_LINE = re.compile(r"CSV Error on Line: (\d+)|in line (\d+)|line (\d+)")
_FILE = re.compile(r"file = (.+)|GZIP stream: (.+)|file \"([^\"]+)\"")
_CAUSES = (
    ("Maximum line size", "a line is longer than 2 MB"),
    ("rounded numbers", "ids are rounded (1.7E+08), or too large for their floating-point column"),
    ("GZIP", "the compressed file is cut off or damaged"),
    ("unicode", "the text is not UTF-8"),
    ("not utf-8", "the text is not UTF-8"),
    ("unterminated quote", "a quotation mark is never closed"),
    ("Expected Number of Columns", "a line has more or fewer columns than the header"),
    ("Malformed JSON", "a line is not JSON"),
    ("JSON", "a line is not JSON"),
    ("state machine", "its line ends or quotation marks change on the way"),
    ("magic bytes", "it is not a Parquet file"),
    ("Parquet", "it is not a readable Parquet file"),
)


class WordAsKey(Exception):
    """A key that was tried as a number is a word: read again, all keys as text."""


@contextmanager
def translated() -> Iterator[None]:
    """DuckDB's complaints about a file in our words: they quote whole lines, which we never do."""
    try:
        yield
    except (duckdb.BinderException, duckdb.CatalogException, duckdb.ParserException):
        raise
    except duckdb.OutOfMemoryException:
        raise RunFailed(
            "The memory given is too small for these tables", fix="raise it with --memory 4GB"
        ) from None
    except (duckdb.InvalidInputException, duckdb.IOException, duckdb.ConversionException) as fault:
        if "an id is no whole number" in str(fault):
            raise WordAsKey from None
        raise _unwritable(str(fault)) or _unreadable(str(fault)) from None


def _unwritable(message: str) -> DiskFailed | None:
    """A failure of our own files: the disk is full, or the working folder cannot be written."""
    if not any(sign in message for sign in ("Could not write", "No space left", "write failed")):
        return None
    return DiskFailed(
        "A working file could not be written",
        why="no space left on device" if "No space left" in message else "",
        fix="free some space where --out points, and start the command again",
    )


def _unreadable(message: str) -> UnreadableTable:
    line, file = _LINE.search(message), _FILE.search(message)
    where = Path(next(filter(None, file.groups()))).name if file else ""
    if line:
        where = f"{where} line {next(filter(None, line.groups()))}".strip()
    why = next((words for sign, words in _CAUSES if sign in message), "it cannot be read")
    fix = "export or copy the file again"
    if why == "the text is not UTF-8":
        fix = "export it again as UTF-8, or name its encoding to ingest: --encoding latin-1"
    return UnreadableTable("A table's file is damaged", where=where, why=why, fix=fix)
