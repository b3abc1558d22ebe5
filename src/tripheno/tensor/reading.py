"""A hospital's tensor from whatever file holds it.

Text is text until a column is declared otherwise: patients 001 and 1 are two, and so are the codes
250.00 and 250. Words that mean nothing are never a patient or a code.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from tripheno.errors import BadCells, BadEvents, NoSuchFile, UnknownFormat
from tripheno.records.events import CountingRule, check_events
from tripheno.records.textfile import (
    MISSING,
    NOBODY,
    are_names,
    content,
    encoding_of,
    header_of,
    kind_of,
)
from tripheno.tensor.count_tensor import CountTensor
from tripheno.tensor.large import count_in_parts, is_large
from tripheno.vocabulary.axis import Axis

_UNSEEN = "[\ufeff\u200b-\u200f\u202a-\u202e\u2060\u2066-\u2069\u00ad\\x00]"
_WORDS = pa.dictionary(pa.int32(), pa.string())  # each word is kept once, a row is a number
_AS_IN_SHEETS = r"""^(?:="|'|")?(\d+)(?:\.0*|,00?)?"?$"""
_BLOCK = 1 << 22
_CAUSES = (  # the message itself quotes the line
    ("columns, got", "a line has more or fewer columns than the header"),
    ("invalid UTF8", "the text is not UTF-8"),
)
_WHOLE = r"^(0|-?[1-9][0-9]{0,17})$"


def read_tensor(path: str | Path, rule: CountingRule | None = None) -> CountTensor:
    """From a site folder (``events.parquet``), an event table, cells, or a FROSTT tensor.

    Cells are Parquet or CSV with the columns ``patient, <mode>, <mode>…, value``.
    """
    path = Path(path)
    if path.is_dir() and not (path / "events.parquet").is_file():
        raise NoSuchFile(
            f"No events.parquet in {path}",
            fix=f"are these a hospital's tables? Read them first: `tripheno ingest SOURCE {path} "
            "--out SITE`, then name SITE",
        )
    if path.is_dir():
        path = path / "events.parquet"
    if not path.is_file():
        raise NoSuchFile(f"No file {path}", fix="name a site folder, events, cells or a .tns file")
    ending = path.name.lower()
    if ending.endswith((".tns", ".tns.gz")):
        return CountTensor.from_tns(path)
    if not ending.endswith((".parquet", ".csv", ".csv.gz")):
        raise UnknownFormat(
            f"'{path.name}' has an unknown ending",
            why=UnknownFormat.__doc__ or "",
            fix="tables of your own are read by `tripheno ingest flat`",
        )
    if ending.endswith(".parquet") and is_large(path):
        return count_in_parts(path, rule)
    table, written = _read_table(path)
    note = table.schema.metadata  # the rule it was written with; renaming loses it
    table = table.rename_columns([name.lower() for name in table.column_names])
    table = table.replace_schema_metadata(note)
    if table.column_names and table.column_names[-1] == "value":
        return _from_cell_table(table, where=path.name)
    if written:
        table = _declared(table, path.name)
    return CountTensor.from_events(check_events(table, where=path.name), rule=rule)


def _read_table(path: Path) -> tuple[pa.Table, bool]:
    """The table, and whether it was written as text (then every column is text, or missing)."""
    try:
        if kind_of(path) == "parquet":
            text = [field.name for field in pq.read_schema(path) if pa.types.is_string(field.type)]
            return pq.read_table(path, read_dictionary=text), False
        header, encoding = header_of(path), encoding_of(path)
        with content(path) as stream:
            table = pyarrow.csv.open_csv(  # block by block: the text is never in memory whole
                stream,
                pyarrow.csv.ReadOptions(
                    encoding="utf-8" if encoding == "utf-8-sig" else encoding,
                    column_names=header.columns,
                    skip_rows=1,
                    block_size=_BLOCK,
                ),
                pyarrow.csv.ParseOptions(delimiter=header.delimiter, newlines_in_values=True),
                pyarrow.csv.ConvertOptions(
                    column_types=dict.fromkeys(header.columns, _WORDS),
                    strings_can_be_null=False,
                ),
            ).read_all()
    except (pa.ArrowException, OSError) as fault:
        why = next((words for sign, words in _CAUSES if sign in str(fault)), type(fault).__name__)
        raise UnknownFormat(
            f"'{path.name}' cannot be read", why=why, fix="is it complete?"
        ) from None
    table = table.unify_dictionaries()
    columns = {name: _present(table[name], name) for name in table.column_names}
    kept = {  # a delimiter at the end of every line makes a column without name and content
        name: held
        for name, held in columns.items()
        if not name.startswith("column ") or held.null_count < len(held)
    }
    return pa.table(kept), True


def _present(column: pa.ChunkedArray, name: str) -> pa.ChunkedArray:
    """Text as codes and words, without what nobody sees and blanks around; missing words are null,
    and in ids also those for nobody and what a spreadsheet wrote around a number.

    Only the different words are looked at, and no Python object is made of a row.
    """
    coded = column.combine_chunks()
    if pa.types.is_binary(coded.type) or str(coded.type) in ("large_string", "string_view"):
        coded = coded.cast(pa.string())
    if pa.types.is_string(coded.type):
        coded = coded.dictionary_encode()
    if not pa.types.is_dictionary(coded.type):
        return column
    words = pc.replace_substring_regex(coded.dictionary.cast(pa.string()), _UNSEEN, "")
    words = pc.replace_substring_regex(words, r"[\pZ\t-\r]", " ")
    words = pc.utf8_trim(pc.utf8_normalize(words, form="NFC"), " ")
    words = pc.replace_substring_regex(words, '^"(.*)"$', r"\1")  # a blank stood before the quote
    if name.lower() in ("patient", "window"):
        words = pc.if_else(pc.is_in(pc.utf8_lower(words), pa.array(NOBODY)), "", words)
        words = pc.replace_substring_regex(words, _AS_IN_SHEETS, r"\1")
    words = pc.if_else(pc.is_in(words, pa.array(MISSING)), None, words).dictionary_encode()
    return pa.chunked_array(
        [pa.DictionaryArray.from_arrays(words.indices.take(coded.indices), words.dictionary)]
    )


def _declared(table: pa.Table, where: str) -> pa.Table:
    """A written event table in the types that its columns are declared to have."""
    columns = {}
    faults = [
        f"'{n[:-4]}' is there more than once" for n in table.column_names if n.endswith(" (2)")
    ]
    for name in table.column_names:
        column = table[name]
        if name in ("patient", "window"):
            column = _numbered(column.cast(pa.string()))
        elif name == "time":
            try:
                column = column.cast(pa.string()).cast(pa.timestamp("us"))
            except pa.ArrowException:
                faults.append("'time' has moments that are not written as 2020-03-04 10:00:00")
        columns[name] = column
    if faults:
        raise BadEvents("; ".join(faults), where=where)
    return pa.table(columns)


def _numbered(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Whole numbers as they are; other names are numbered, so that 001 and 1 stay two."""
    if pc.all(pc.match_substring_regex(column, _WHOLE)).as_py() is not False:
        return column.cast(pa.int64())
    return pa.chunked_array([column.combine_chunks().dictionary_encode().indices.cast(pa.int64())])


def _from_cell_table(table: pa.Table, *, where: str) -> CountTensor:
    """Columns patient, one per feature mode, value; codes may be text or whole numbers."""
    table = pa.table({name: _present(table[name], name) for name in table.column_names})
    patient, *modes, _ = table.column_names
    if patient != "patient" or len(modes) < 2:
        raise BadCells(
            f"columns are {table.column_names}"
            if are_names(table.column_names)
            else "its first line looks like data, not like a header",
            where=where,
            fix="patient, two or more modes, value",
        )
    faults = [
        f"'{name}' is missing in {table[name].null_count:,} of {table.num_rows:,} cells"
        for name in table.column_names
        if table[name].null_count
    ]
    faults += [
        f"'{name}' holds codes as {table[name].type}: write them as text"
        for name in (patient, *modes)
        if not pa.types.is_integer(_values_of(table[name].type))
        and not pa.types.is_string(_values_of(table[name].type))
    ]
    faults += [f"'{name[:-4]}' is there more than once" for name in modes if name.endswith(" (2)")]
    if pa.types.is_boolean(table["value"].type):
        faults.append("'value' holds yes and no, not counts")
    if faults:
        raise BadCells("; ".join(faults), where=where)
    rows = table["patient"].combine_chunks()
    rows = rows if pa.types.is_dictionary(rows.type) else rows.dictionary_encode()
    columns, axes = [np.asarray(rows.indices)], []
    for mode in modes:
        codes, positions = _sorted_codes(table[mode])
        axes.append(Axis(mode, len(codes), codes))
        columns.append(positions)
    shape = [len(rows.dictionary), *(axis.size for axis in axes)]
    return CountTensor.from_cells(
        np.array(columns, np.int32).T, _values(table["value"], where), shape=shape, axes=axes
    )


def _sorted_codes(column: pa.ChunkedArray) -> tuple[tuple[str, ...], np.ndarray]:
    """The codes in order, and every row's position among them."""
    coded = column.combine_chunks()
    if not pa.types.is_dictionary(coded.type):
        coded = coded.dictionary_encode()
    words = coded.dictionary.cast(pa.string())
    codes, merged = np.unique(np.asarray(words.to_pylist(), dtype=object), return_inverse=True)
    positions = merged.astype(np.int32)[np.asarray(coded.indices)]
    return tuple(str(code) for code in codes), positions


def _values_of(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _values(column: pa.ChunkedArray, where: str) -> np.ndarray:
    """The counts; a table that was written as text has them as text."""
    try:
        if pa.types.is_dictionary(column.type):
            coded = column.combine_chunks()
            column = pa.chunked_array([coded.dictionary.cast(pa.float64()).take(coded.indices)])
        kind = pa.float64() if pa.types.is_decimal(column.type) else column.type
        values = np.asarray(column.cast(kind).to_numpy())
    except pa.ArrowException:
        raise BadCells("a value is not a number", where=where) from None
    wrong = int(np.count_nonzero(~(values >= 1)))
    if wrong:
        raise BadCells(
            f"{wrong:,} of {len(values):,} values are not whole counts above 0", where=where
        )
    return values
