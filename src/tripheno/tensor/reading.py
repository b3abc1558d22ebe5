"""A hospital's tensor from whatever file holds it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from tripheno.errors import BadCells, NoSuchFile, UnknownFormat
from tripheno.records.events import CountingRule, check_events
from tripheno.tensor.count_tensor import CountTensor
from tripheno.vocabulary.axis import Axis


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
    if path.name.endswith((".tns", ".tns.gz")):
        return CountTensor.from_tns(path)
    if not path.name.endswith((".parquet", ".csv", ".csv.gz")):
        raise UnknownFormat(
            f"'{path.name}' has an unknown ending",
            why=UnknownFormat.__doc__ or "",
            fix="tables of your own are read by `tripheno ingest flat`",
        )
    table = _read_table(path)
    if table.column_names and table.column_names[-1] == "value":
        return _from_cell_table(table, where=path.name)
    return CountTensor.from_events(check_events(table, where=path.name), rule=rule)


def _read_table(path: Path) -> pa.Table:
    try:
        if path.suffix == ".parquet":
            return pq.read_table(path)
        return pyarrow.csv.read_csv(path)
    except (pa.ArrowException, OSError) as fault:
        raise UnknownFormat(
            f"'{path.name}' cannot be read", why=type(fault).__name__, fix="is it complete?"
        ) from None


def _from_cell_table(table: pa.Table, *, where: str) -> CountTensor:
    """Columns patient, one per feature mode, value; codes may be text or whole numbers."""
    patient, *modes, _ = table.column_names
    if patient != "patient" or len(modes) < 2:
        raise BadCells(
            f"columns are {table.column_names}",
            where=where,
            fix="patient, two or more modes, value",
        )
    if any(column.null_count for column in table.columns):
        raise BadCells("a cell has missing entries", where=where)
    rows = table["patient"].combine_chunks().dictionary_encode()
    columns, axes = [np.asarray(rows.indices, dtype=np.int64)], []
    for mode in modes:
        codes, positions = np.unique(
            np.asarray(table[mode].cast(pa.string()).to_pylist(), dtype=object), return_inverse=True
        )
        axes.append(Axis(mode, len(codes), tuple(str(code) for code in codes)))
        columns.append(positions.astype(np.int64))
    shape = [len(rows.dictionary), *(axis.size for axis in axes)]
    values = table["value"].to_numpy()
    return CountTensor.from_cells(np.column_stack(columns), values, shape=shape, axes=axes)
