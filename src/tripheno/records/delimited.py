"""DuckDB's CSV reader, told everything and guessing nothing."""

from __future__ import annotations

import shutil
from pathlib import Path

from tripheno.errors import SettingsError
from tripheno.records.duck import Workbench, literal
from tripheno.records.textfile import (
    encoding_of,
    has_odd_line_ends,
    header_of,
    kind_of,
    lines,
)


def csv_relation(bench: Workbench, path: Path, delimiter: str | None = None) -> str:
    """A call of DuckDB's CSV reader in which every column is text."""
    header = header_of(path, delimiter, bench.encoding)
    readable = plain_text(bench, path)
    quote = '"' if header.quoted else ""
    columns = ", ".join(f"{literal(name)}: 'VARCHAR'" for name in header.columns)
    packed = {"text": "none"}.get(kind_of(readable), kind_of(readable))
    call = (
        f"read_csv({literal(str(readable))}, auto_detect = false, header = true, "
        f"compression = {literal(packed)}, delim = {literal(header.delimiter)}, "
        f"quote = {literal(quote)}, escape = {literal(quote)}, columns = {{{columns}}})"
    )
    if header.quoted:
        return call
    bare = "regexp_replace(COLUMNS(*), '^\"([^\"]*)\"$', '\\1')"  # a name inside may have marks
    return f"(SELECT {bare} FROM {call})"  # noqa: S608


def plain_text(
    bench: Workbench, path: Path, accepted: tuple[str, ...] = ("utf-8", "utf-8-sig")
) -> Path:
    """The file itself, or a copy in UTF-8 with plain line ends where DuckDB would stumble."""
    encoding = encoding_of(path, bench.encoding)
    if encoding in accepted and not has_odd_line_ends(path, bench.encoding):
        return path
    copy = bench.folder / "text" / f"{len(list(bench.folder.glob('text/*')))}-{path.name}"
    copy.parent.mkdir(exist_ok=True)
    if shutil.disk_usage(copy.parent).free < 4 * path.stat().st_size:
        raise SettingsError("no room for a copy in UTF-8", where=path.name, fix="free the disk")
    with copy.open("w", encoding="utf-8", newline="\n") as out:
        out.writelines(lines(path, bench.encoding))
    return copy
