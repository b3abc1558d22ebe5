"""What an event is, and the check at the border.

An event is one code that one patient has in one window: patient, window, time, mode, code, label.
Whatever a hospital's records look like, they become this table first.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tripheno.errors import BadEvents, NoSuchFile, SettingsError
from tripheno.files import whole_file

EVENT_SCHEMA = pa.schema(
    [
        pa.field("patient", pa.int64(), nullable=False),
        pa.field("window", pa.int64()),
        pa.field("time", pa.timestamp("us")),
        pa.field("mode", pa.dictionary(pa.int32(), pa.string()), nullable=False),
        pa.field("code", pa.dictionary(pa.int32(), pa.string()), nullable=False),
        pa.field("label", pa.dictionary(pa.int32(), pa.string())),
    ]
)

_RULE_KEY = b"tripheno.counting"
_SYNTHETIC_KEY = b"tripheno.synthetic"
_WIDTH = re.compile(r"(?P<fixed>every-)?(?P<count>\d+)(?P<unit>[mhd])")
_MICROSECONDS = {"m": 60_000_000, "h": 3_600_000_000, "d": 86_400_000_000}
_WIDEST = 2**62  # microseconds; a time plus or minus it still fits 64 bits
NAMED_WINDOWS = ("visit", "person", "same-day")


@dataclass(frozen=True)
class CountingRule:
    """How events become counts: which modes, which window, which cap.

    ``window`` is one of

    - ``visit``: events that share the ``window`` column (a visit, a stay, any id the source gave);
    - ``person``: all events of a patient;
    - ``same-day``: events of one calendar day, and ``every-6h``, ``every-7d``…: calendar windows;
    - ``3h``, ``6h``, ``1d``, ``7d``…: sliding, pairs of events with |t₁ − t₂| ≤ w, each counted.
    """

    modes: tuple[str, ...] = ("medication", "diagnosis")
    window: str = "visit"
    cap: int | None = None

    def __post_init__(self) -> None:
        faults = []
        if len(self.modes) < 2 or len(set(self.modes)) != len(self.modes):
            faults.append(f"modes must be two or more different names, not {list(self.modes)}")
        if "patient" in self.modes:
            faults.append("'patient' is always the first mode and is not named")
        if self.window not in NAMED_WINDOWS and not _WIDTH.fullmatch(self.window):
            faults.append(f"unknown window {self.window!r}")
        if self.calendar_width == 0:
            faults.append(f"window {self.window!r} has no width")
        if max(self.calendar_width or 0, self.sliding_width or 0) > _WIDEST:
            faults.append(f"window {self.window!r} is too wide")
        if self.cap is not None and self.cap < 1:
            faults.append(f"cap must be 1 or more, not {self.cap}")
        if self.sliding_width is not None and len(self.modes) != 2:
            faults.append("sliding windows pair exactly two feature modes")
        if faults:
            raise SettingsError(
                "; ".join(faults),
                where="counting rule",
                fix="windows: visit, person, same-day, every-6h (calendar), 3h, 1d, 7d (sliding)",
            )

    @property
    def sliding_width(self) -> int | None:
        """Width of a sliding window in microseconds, or None when the window does not slide."""
        match = _WIDTH.fullmatch(self.window)
        if match is None or match["fixed"]:
            return None
        return int(match["count"]) * _MICROSECONDS[match["unit"]]

    @property
    def calendar_width(self) -> int | None:
        """Width of a calendar window in microseconds, or None when there is none."""
        if self.window == "same-day":
            return _MICROSECONDS["d"]
        match = _WIDTH.fullmatch(self.window)
        if match is None or not match["fixed"]:
            return None
        return int(match["count"]) * _MICROSECONDS[match["unit"]]


def check_events(table: Any, *, where: str = "event table") -> pa.Table:
    """The event table in its canonical schema, or every fault in it at once.

    Takes anything Arrow can read: a pyarrow table, a Polars or pandas frame, a dict of columns.
    """
    try:
        table = table if isinstance(table, pa.Table) else pa.table(table)
    except (TypeError, ValueError, pa.ArrowException) as fault:
        raise BadEvents("not a table", where=where, why=type(fault).__name__) from None
    present = set(table.column_names)
    faults = [f"no column '{name}'" for name in ("patient", "mode", "code") if name not in present]
    if not present & {"window", "time"}:
        faults.append("neither a column 'window' nor 'time'")
    columns = {}
    for field in EVENT_SCHEMA:
        if field.name not in present:
            columns[field.name] = pa.nulls(table.num_rows, field.type)
            continue
        try:
            column = _cast(table[field.name], field.type)
        except (pa.ArrowException, ValueError):
            faults.append(f"'{field.name}' is {table[field.name].type}, not {_plain(field.type)}")
            continue
        columns[field.name] = column
        if not field.nullable and column.null_count:
            faults.append(f"'{field.name}' is missing in {column.null_count:,} rows")
    if not faults:
        faults += _value_faults(columns)
    if faults:
        raise BadEvents(
            "; ".join(faults),
            where=where,
            fix="see `tripheno explain TRIP-E302`; a table with other columns is read by "
            "`tripheno ingest flat`",
        )
    metadata = table.schema.metadata
    return pa.table(
        [columns[field.name] for field in EVENT_SCHEMA], schema=EVENT_SCHEMA.with_metadata(metadata)
    )


def _plain(kind: pa.DataType) -> str:
    return "text" if pa.types.is_dictionary(kind) else str(kind)


def _cast(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """One column in its canonical type, refusing to lose anything on the way."""
    if pa.types.is_null(column.type):  # a column of nothing but gaps has no type of its own
        return pa.chunked_array([pa.nulls(len(column), kind)])
    if column.type == kind:
        return column.unify_dictionaries() if pa.types.is_dictionary(kind) else column
    if pa.types.is_dictionary(kind):
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
            raise ValueError
        return column.cast(pa.string()).dictionary_encode().unify_dictionaries()
    if pa.types.is_timestamp(kind):
        if not (pa.types.is_timestamp(column.type) or pa.types.is_date(column.type)):
            raise ValueError
        return column.cast(kind, safe=False)
    if pa.types.is_boolean(column.type) or pa.types.is_string(column.type):
        raise ValueError
    return column.cast(kind)


def _value_faults(columns: dict[str, pa.ChunkedArray]) -> list[str]:
    faults = []
    if len(columns["patient"]) == 0:
        faults.append("there are no rows")
    elif pc.min(columns["patient"]).as_py() < 0:
        faults.append("'patient' has negative numbers")
    modes = [m for m in pc.unique(columns["mode"]).to_pylist() if m and m.strip()]
    if len({mode.strip().lower() for mode in modes}) < len(modes):
        faults.append(f"modes differ by capitals or blanks only: {', '.join(sorted(modes)[:6])}")
    for name in ("mode", "code"):
        blank = sum(_blanks(chunk) for chunk in columns[name].chunks)
        if blank:
            faults.append(f"'{name}' is blank in {blank:,} rows")
    return faults


def _blanks(chunk: pa.DictionaryArray) -> int:
    """Rows whose text is blank; only the dictionary is searched unless there are some."""
    blank = pc.equal(pc.utf8_trim_whitespace(chunk.dictionary), "")
    if not pc.any(blank).as_py():
        return 0
    return int(pc.sum(pc.take(blank, chunk.indices)).as_py())


def write_events(
    table: pa.Table, path: Path, rule: CountingRule, *, synthetic: bool = False
) -> None:
    """Write an event table that remembers how it is to be counted, and whether it is nobody's."""
    note = _note(rule, synthetic)
    checked = check_events(table, where=path.name)
    metadata = {**(checked.schema.metadata or {}), **note}
    with whole_file(path) as stream:
        pq.write_table(checked.replace_schema_metadata(metadata), stream, compression="zstd")


def _note(rule: CountingRule, synthetic: bool) -> dict[bytes, bytes]:
    note = {_RULE_KEY: json.dumps(asdict(rule), sort_keys=True).encode()}
    return {**note, _SYNTHETIC_KEY: b"yes"} if synthetic else note


def is_synthetic(table: pa.Table) -> bool:
    """Whether the events were marked as nobody's when they were written."""
    return (table.schema.metadata or {}).get(_SYNTHETIC_KEY) == b"yes"


def stream_events(
    batches: Iterable[pa.RecordBatch], path: Path, rule: CountingRule, *, synthetic: bool = False
) -> int:
    """Write events as they come, a batch in memory at a time, and say how many there were.

    The batches have the event schema; what is read back is checked like any other file.
    """
    note = _note(rule, synthetic)
    schema, rows = EVENT_SCHEMA.with_metadata(note), 0
    with whole_file(path) as stream, pq.ParquetWriter(stream, schema, compression="zstd") as writer:
        for batch in batches:
            writer.write_batch(batch.replace_schema_metadata(note))
            rows += batch.num_rows
    return rows


def read_events(path: Path) -> pa.Table:
    """Read and check an event table (Parquet)."""
    if not path.is_file():
        raise NoSuchFile(f"No event table {path}", fix="Is this a site folder made by `ingest`?")
    try:
        table = pq.read_table(path)
    except (pa.ArrowException, OSError) as fault:
        raise BadEvents(
            "cannot be read as Parquet", where=str(path), why=type(fault).__name__
        ) from None
    return check_events(table, where=str(path))


def counting_rule(table: pa.Table) -> CountingRule:
    """The rule an event table was written with, or the default rule over the modes it has."""
    note = (table.schema.metadata or {}).get(_RULE_KEY)
    if note is not None:
        fields = json.loads(note)
        return CountingRule(tuple(fields["modes"]), fields["window"], fields["cap"])
    return CountingRule(modes=modes_of(table))


def is_marked(schema: pa.Schema) -> bool:
    """Whether the events remember the rule they were written with."""
    return _RULE_KEY in (schema.metadata or {})


def modes_of(table: pa.Table) -> tuple[str, ...]:
    """The modes present in an event table, in the house order, then by name."""
    order = {"medication": 0, "diagnosis": 1, "lab": 2, "procedure": 3}
    present = pc.unique(table["mode"].cast(pa.string())).to_pylist()
    return tuple(sorted(present, key=lambda mode: (order.get(mode, len(order)), mode)))


def events_from_columns(
    patient: np.ndarray,
    window: np.ndarray,
    mode: Any,
    code: Any,
    *,
    label: Any = None,
    time: Any = None,
) -> pa.Table:
    """An event table from plain columns; the check is the same as for a file."""
    columns = {"patient": patient, "window": window, "mode": mode, "code": code}
    optional = {"label": label, "time": time}
    columns.update({name: value for name, value in optional.items() if value is not None})
    return check_events(columns)
