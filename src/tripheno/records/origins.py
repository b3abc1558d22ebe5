"""Which files make up a table? A folder of exports, or a DuckDB file.

A table may lie in several files (``2020/`` and ``2021/``, ``part-0.csv`` and ``part-1.csv``). They
are read together when nothing speaks against it: numbered alike, equal headers, different contents.
Anything doubtful is refused; no file that could be meant is passed over.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

import duckdb
import pyarrow.parquet as pq

from tripheno.errors import (
    DoubtfulTable,
    NoSuchFile,
    SettingsError,
    UnknownRecords,
    UnreadableTable,
)
from tripheno.provenance import file_fingerprint
from tripheno.records.catalog import Catalog, TableOrigin
from tripheno.records.databases import database_origin, is_address
from tripheno.records.delimited import csv_relation
from tripheno.records.duck import Workbench, identifier, literal, literals
from tripheno.records.textfile import ends_a_line, header_of, kind_of

_SUFFIXES = (".parquet", ".csv", ".tsv", ".txt")
_PACKED = (".gz", ".zst")
NO_RECORDS = (".md", ".html", ".pdf", ".md5", ".sha256", ".crc", ".toml", ".sql", ".log")
_SHARD = re.compile(r"(part|data|chunk|shard)[-_.]|\d+$")
_PARTITION = re.compile(r"\w+=.*|\d*")
_NUMBERED = re.compile(r"(.*?[^\d\W_].*?)[-_. ]*(?:part)?[-_. ]*\(?\d+\)?")
_COPY = re.compile(
    r"(.+?)[-_. ]*(?:copy|kopie|copie|copia|corrected|archive|old|new|bak|backup|final|v)"
    r"[-_. ]*\(?\d*\)?"
)
_COPIES = ("copy", "kopie", "copie", "copia", "archive", "old", "bak", "backup")
_COPY_OF = re.compile(r"(?:copy of|kopie von|old|backup|bak)[-_. ]+(.+)")
_DEPTH = 8
_LAKES = {"_delta_log": "Delta", ".hoodie": "Hudi"}


class FolderOrigin(TableOrigin):
    """A folder of CSV or Parquet files, its subfolders, or one such file."""

    def __init__(self, bench: Workbench, path: Path) -> None:
        self._bench, self.title, self._root = bench, path.name or str(path), path
        found = files_in(path)
        self.foreign = sorted(
            f.name for f in found if not is_table(f) and not f.name.lower().endswith(NO_RECORDS)
        )
        self._files: dict[str, list[Path]] = {}
        for file in sorted(f for f in found if is_table(f)):
            name = table_name(file.name)
            if path.is_dir() and file.parent != path and _SHARD.match(name):
                above = (p for p in file.parents if not _PARTITION.fullmatch(p.name))
                name = table_name(next(above).name)
            self._files.setdefault(name, []).append(file)
        self._gather_numbered()
        self._columns: dict[str, dict[str, str]] = {}

    def _gather_numbered(self) -> None:
        """``orders_1`` and ``orders_2`` are ``orders``, unless there is an ``orders`` too."""
        stems: dict[str, list[str]] = {}
        for name in self._files:
            stem = stem_of(name)
            if stem and stem not in self._files:
                stems.setdefault(stem, []).append(name)
        for stem, names in stems.items():
            if len(names) > 1:
                self._files[stem] = [file for name in sorted(names) for file in self._files[name]]

    def names(self) -> list[str]:
        """Every file that can be a table."""
        return list(self._files)

    def columns(self, name: str) -> dict[str, str]:
        """The header of a CSV file (all text), or the schema of a Parquet file."""
        if name not in self._columns:
            self._refuse_doubt(name)
            if kind_of(self._files[name][0]) == "parquet":
                rows = self._bench.rows(f"DESCRIBE FROM {self._parquet(self._files[name])}")
                self._refuse_twins(name)
                self._columns[name] = {row[0]: row[1] for row in rows}
            else:
                header = header_of(self._files[name][0], declared=self._bench.encoding)
                self._columns[name] = dict.fromkeys(header.columns, "VARCHAR")
        return self._columns[name]

    def relation(self, name: str, columns: Sequence[str]) -> str:
        """A call of DuckDB's own reader."""
        del columns  # DuckDB reads only the columns that the view asks for
        self.columns(name)
        files = self._files[name]
        if kind_of(files[0]) == "parquet":
            return self._parquet(files)
        readers = [csv_relation(self._bench, file) for file in files]
        together = " UNION ALL BY NAME ".join(f"SELECT * FROM {reader}" for reader in readers)  # noqa: S608
        return readers[0] if len(readers) == 1 else f"({together})"

    def shown(self, name: str) -> str:
        """The file's name, or those of all its parts."""
        files = self._files[name]
        if len(files) == 1:
            return files[0].name
        listed = ", ".join(self._short(file) for file in files[:4])
        return f"{name} ({len(files)} files: {listed}{', …' if len(files) > 4 else ''})"

    def fingerprints(self, names: Sequence[str]) -> dict[str, str]:
        """SHA-256 of every file read."""
        return {
            file.name if len(self._files[name]) == 1 else self._short(file): file_fingerprint(file)
            for name in names
            for file in self._files[name]
        }

    def _short(self, file: Path) -> str:
        return file.relative_to(self._root).as_posix() if self._root.is_dir() else file.name

    def beside(self, name: str) -> list[str]:
        """Other tables with this one's name in theirs and the same columns."""
        return [
            other
            for other, files in self._files.items()
            if other != name
            and name in other
            and not set(files) & set(self._files[name])
            and sorted(self._header(files[0])) == sorted(self._header(self._files[name][0]))
        ]

    def doubts(self, name: str) -> list[str]:
        """The plain files of a table that stop within a line, as one that was cut off does."""
        return [
            f"{self._short(file)}: the last line has no end: is the file complete?"
            for file in self._files[name]
            if kind_of(file) == "text" and not ends_a_line(file)
        ]

    @staticmethod
    def _parquet(files: Sequence[Path]) -> str:
        several = str(len(files) > 1).lower()
        return f"read_parquet([{literals(map(str, files))}], union_by_name = {several})"

    def _refuse_doubt(self, name: str) -> None:
        """Refuse a table that is there in two ways, and copies that lie beside it."""
        files = self._files[name]
        copies = [
            file
            for other, held in self._files.items()
            for file in held
            if other != name and file not in files and _looks_like(other, name)
        ]
        if len(files) > 1 or copies:
            why = _doubt(files, copies) or self._unequal(files)
            if why:
                raise DoubtfulTable(
                    f"Table '{name}' is there more than once",
                    where=", ".join(self._short(file) for file in [*files, *copies][:6]),
                    why=why,
                    fix="move what is not meant out of the folder; parts of one table lie in "
                    "folders or files that differ by a number",
                )

    def _refuse_twins(self, name: str) -> None:
        """Refuse columns that differ by capitals only: DuckDB would rename one of them."""
        columns = [c.lower() for c in pq.read_schema(self._files[name][0]).names]
        twins = sorted({column for column in columns if columns.count(column) > 1})
        if twins:
            raise DoubtfulTable(
                f"Column '{', '.join(twins[:3])}' is there more than once",
                where=self.shown(name),
                fix="keep the one that is meant",
            )

    def _unequal(self, files: Sequence[Path]) -> str:
        """Why files that look like parts of one table are none."""
        kinds = {"parquet" if kind_of(file) == "parquet" else "text" for file in files}
        if len(kinds) > 1:
            return "some are text, some are Parquet"
        headers = {tuple(sorted(self._header(file))) for file in files}
        if len(headers) > 1:
            return "their columns differ"
        if len({file_fingerprint(file) for file in files}) < len(files):
            return "two of them are the same file"
        return ""

    def _header(self, file: Path) -> list[str]:
        if kind_of(file) == "parquet":
            rows = self._bench.rows(f"DESCRIBE FROM {self._parquet([file])}")
            return [str(row[0]).lower() for row in rows]
        return [c.lower() for c in header_of(file, declared=self._bench.encoding).columns]


def stem_of(name: str) -> str:
    """``orders`` of ``orders_1``; blank where a name has no number."""
    match = _NUMBERED.fullmatch(name)
    return match[1] if match else ""


def is_copy(name: str) -> bool:
    """Whether a file's or folder's name is a word for a copy, or has one."""
    words = name.replace("-", "_").replace(" ", "_").split("_")
    return any(word in _COPIES for word in words) or bool(re.fullmatch(r".*\(\d+\)", name))


def _looks_like(other: str, name: str) -> bool:
    """Whether a file's name is a table's name with a number or a word for a copy behind it."""
    return any(
        match is not None and match[1] == name
        for match in (form.fullmatch(other) for form in (_NUMBERED, _COPY, _COPY_OF))
    )


def _doubt(files: Sequence[Path], copies: Sequence[Path]) -> str:
    """Why several files are not clearly the parts of one table."""
    if copies:
        return "is the other file a part, a copy or an older one?"
    if len({(file.parent, table_name(file.name)) for file in files}) < len(files):
        return "the same table stands beside itself in another form"
    if len({len(file.parts) for file in files}) > 1:
        return "one lies in a folder beside the other: an older copy?"
    names = {
        file: "#" if _SHARD.match(table_name(file.name)) else table_name(file.name)
        for file in files
    }
    alike = {re.sub(r"\d+", "#", str(file.parent / name)) for file, name in names.items()}
    return "" if len(alike) == 1 else "their folders are not numbered parts (2020, 2021 …)"


class DuckDBOrigin(Catalog):
    """A DuckDB database file, opened read-only; one of its schemas, or all."""

    def __init__(self, bench: Workbench, path: Path, schema: str | None = None) -> None:
        self._path, self._bench = path, bench
        try:
            bench.run(f"ATTACH {literal(str(path))} AS origin (READ_ONLY)")
        except (UnreadableTable, duckdb.Error):
            raise UnreadableTable(
                "A DuckDB file cannot be opened",
                where=path.name,
                why="another program has it open, or its version is not one that DuckDB "
                f"{duckdb.__version__} reads",
                fix="close it, or export its tables with EXPORT DATABASE … (FORMAT parquet)",
            ) from None
        rows = bench.rows(
            "SELECT schema_name, table_name, column_name, data_type FROM duckdb_columns() "
            "WHERE database_name = 'origin' AND NOT internal AND "
            "lower(schema_name) = lower(coalesce(CAST($schema AS VARCHAR), schema_name)) "
            "ORDER BY column_index",
            schema=schema,
        )
        super().__init__(path.name, rows)

    def relation(self, name: str, columns: Sequence[str]) -> str:
        """The table under its full name."""
        del columns
        schema, table = self._tables[name]
        full = f"origin.{identifier(schema)}.{identifier(table)}"
        try:
            self._bench.run(f"SELECT 1 FROM {full} LIMIT 0")  # noqa: S608
        except duckdb.Error:
            raise UnreadableTable(
                f"The view '{table}' cannot be read",
                where=self._path.name,
                why="what it looks at is gone, or has changed",
                fix="make the view again, or export its table",
            ) from None
        return full

    def fingerprints(self, names: Sequence[str]) -> dict[str, str]:
        """SHA-256 of the database file."""
        return {self._path.name: file_fingerprint(self._path)} if names else {}


def origin_of(bench: Workbench, path: str, schema: str | None = None) -> TableOrigin:
    """The origin that fits a path or a database's address."""
    if is_address(path):
        return database_origin(bench, path, schema)
    place = Path(path)
    if not place.exists():
        raise NoSuchFile(f"No file or folder {place}", fix="check the path, from where you are")
    if place.is_file() and kind_of(place) == "duckdb":
        return DuckDBOrigin(bench, place, schema)
    if schema is not None:
        raise SettingsError("a schema belongs to a database", fix="leave out --schema")
    if place.is_file() and kind_of(place) == "sqlite":
        return database_origin(bench, f"sqlite:{place}", schema)
    origin = FolderOrigin(bench, place)
    if not origin.names():
        found = f"; it holds {', '.join(origin.foreign[:5])}" if origin.foreign else ""
        raise UnknownRecords(
            f"No tables in {place.name}",
            why="looked for " + ", ".join(_SUFFIXES) + found,
            fix="a DuckDB or SQLite file is named itself, not its folder; an archive is unpacked",
        )
    return origin


def is_table(path: Path) -> bool:
    """Whether a file's name is that of a table."""
    return _unpacked(path.name).endswith(_SUFFIXES)


def table_name(file: str) -> str:
    """The table that a file's name stands for: lower case, without suffixes."""
    lower = _unpacked(file)
    return lower.removesuffix(next((end for end in _SUFFIXES if lower.endswith(end)), ""))


def _unpacked(name: str) -> str:
    lower = name.lower()
    return lower.removesuffix(next((end for end in _PACKED if lower.endswith(end)), ""))


def files_in(path: Path) -> list[Path]:
    """The file itself, or the files of a folder and its subfolders; never a site's own folder.

    Links are followed, a folder is read once, and one that cannot be opened is an error: nothing is
    passed over but hidden files and the marks of programs that have a table open (``~$orders``).
    """
    if path.is_file():
        return [path]
    found: list[Path] = []
    seen: set[str] = set()
    for here, folders, names in os.walk(path, onerror=_unopened, followlinks=True):
        depth = len(Path(here).relative_to(path).parts)
        for lake in set(folders) & set(_LAKES):
            raise DoubtfulTable(
                f"'{Path(here).name}' is a {_LAKES[lake]} table",
                why="files that no longer count lie among those that do",
                fix="write the table out as Parquet, and name that folder",
            )
        if os.path.realpath(here) in seen or ("coverage.json" in names and "local" in folders):
            folders.clear()
            continue
        seen.add(os.path.realpath(here))
        folders[:] = sorted(
            f for f in folders if not f.startswith((".", "__MACOSX")) and depth < _DEPTH
        )
        found += [Path(here) / name for name in names if not name.startswith((".", "~$"))]
    if lost := [file.name for file in found if not file.exists()]:
        raise NoSuchFile(f"A link leads nowhere: {', '.join(sorted(lost)[:3])}")
    return found


def _unopened(fault: OSError) -> None:
    name = Path(str(fault.filename)).name
    raise NoSuchFile(f"A folder cannot be opened: {name}", fix="ask for the right to read it")
