"""A large hospital's events counted part by part, so that memory does not grow with them.

`ingest` writes events sorted by patient. A file with more than ``LARGE`` of them is read in runs of
whole patients; each run is counted by itself and kept as a file (`parts`). In a hospital's folder
the files stand in ``local/parts``: a run that was stopped goes on with those that are there, and
the next run on the same events finds them all.
"""

from __future__ import annotations

import logging
import mmap
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tripheno.errors import BadEvents, EmptyTensor
from tripheno.files import lock, owners_folder
from tripheno.provenance import fingerprint
from tripheno.records.events import (
    EVENT_SCHEMA,
    CountingRule,
    check_events,
    counting_rule,
    is_marked,
    modes_of,
    read_events,
)
from tripheno.tensor.block_building import in_blocks
from tripheno.tensor.cells import LARGEST_SIZE, Cells
from tripheno.tensor.count_tensor import CountTensor
from tripheno.tensor.counting import counted, filled
from tripheno.tensor.part_files import opened_part, saved_part, write_part
from tripheno.tensor.parts import PatientParts, Stored
from tripheno.vocabulary.axis import Axis, axis_of_events, union

LARGE = 5_000_000  # events; fewer are counted in one piece, in about a gigabyte
EVENTS_PER_PART = 1 << 20
MOST_PARTS = 200  # each keeps a file open
FORM = 1  # of the files; another form is another key

log = logging.getLogger("tripheno.tensor")


def is_large(path: Path) -> bool:
    """Whether a file is an event table, as ingest writes it, of more than ``LARGE`` events."""
    try:
        with pq.ParquetFile(path) as file:
            rows, schema = file.metadata.num_rows, file.schema_arrow
    except (pa.ArrowException, OSError):
        return False
    return bool(rows > LARGE and schema.equals(EVENT_SCHEMA) and is_marked(schema))


def count_file(path: Path, rule: CountingRule | None = None) -> CountTensor:
    """The tensor of an event table in a Parquet file, in one piece or in parts, by its size."""
    if is_large(path):
        return count_in_parts(path, rule)
    return CountTensor.from_events(read_events(path), rule=rule)


class Outline(NamedTuple):
    """What a first reading of the sorted events shows."""

    axes: dict[str, Axis]
    rows: list[int]  # the event with which each part begins, and the last one's end
    patients: list[int]  # the same in patients


def count_in_parts(path: Path, rule: CountingRule | None = None) -> CountTensor:
    """The same counts as in one piece, patient by patient in their order, in parts on disk."""
    outline = _outlined(path)
    if outline is None:
        log.warning("the events are not sorted by patient: counted in one piece, in memory")
        return CountTensor.from_events(read_events(path), rule=rule)
    rule = rule or counting_rule(pq.read_schema(path).empty_table())
    axes = tuple(outline.axes.get(mode, Axis(mode, 0, ())) for mode in rule.modes)
    empty = [axis.mode for axis in axes if axis.size == 0]
    if empty:
        raise EmptyTensor(
            f"No events of mode {', '.join(empty)}", fix="check --modes and the records read"
        )
    number = len(outline.rows) - 1
    log.info("%s events are counted in %s parts, on disk", f"{outline.rows[-1]:,}", number)
    opened: list[tuple[Stored, mmap.mmap]] = []
    with _shelf(path, rule) as (folder, kept):
        for n in range(number):
            place = None if kept is None else kept / f"{n:04}.part"
            if place is not None and place.is_file():
                opened.append(opened_part(place))
                continue
            part = _counted(path, outline, n, axes, rule)
            if place is None:
                opened.append(saved_part(part, folder))
            else:
                write_part(part, place)
                opened.append(opened_part(place))
            log.info("part %s of %s is counted", n + 1, number)
    parts, files = zip(*opened, strict=True)
    return CountTensor(axes, filled(PatientParts(parts, files, folder), rule))


def _outlined(path: Path) -> Outline | None:
    """Axes, and where to cut between patients; None where the events are not sorted by patient."""
    with pq.ParquetFile(path) as file:
        size = max(EVENTS_PER_PART, -(-file.metadata.num_rows // MOST_PARTS))
        axes: dict[str, Axis] = {}
        rows, patients, seen, last = [0], [0], 0, -1
        for group in range(file.num_row_groups):
            table = file.read_row_group(group, columns=["patient", "mode", "code", "label"])
            owner = table["patient"].to_numpy()
            if len(owner) == 0:
                continue
            if owner[0] < max(last, 0) or (np.diff(owner) < 0).any():
                return None
            last = int(owner[-1])
            begin = int(np.searchsorted(owner, last))  # of the last patient here
            if begin and seen + begin - rows[-1] >= size:
                rows.append(seen + begin)
                patients.append(last)
            seen += len(owner)
            for mode in modes_of(table):
                own = axis_of_events(table, mode)
                axes[mode] = _united(axes[mode], own) if mode in axes else own
    if last >= LARGEST_SIZE:
        raise BadEvents(f"'patient' goes beyond {LARGEST_SIZE:,}", where=path.name)
    return Outline(axes, [*rows, seen], [*patients, last + 1])


def _united(one: Axis, other: Axis) -> Axis:
    """Both axes' codes; of several labels the last in the alphabet, as in one piece."""
    if one.codes == other.codes and one.labels == other.labels:
        return one
    labels = dict(one.labels)
    for code, label in other.labels.items():
        labels[code] = max(label, labels.get(code, label))
    return replace(union([one, other]), labels=labels)


def _counted(
    path: Path, outline: Outline, n: int, axes: tuple[Axis, ...], rule: CountingRule
) -> Stored:
    """Part n: its row groups are read, cut, checked and counted."""
    first, last = outline.rows[n : n + 2]
    with pq.ParquetFile(path) as file:
        lengths = [file.metadata.row_group(g).num_rows for g in range(file.num_row_groups)]
        ends = np.cumsum(lengths)
        groups = range(
            int(np.searchsorted(ends, first, side="right")), int(np.searchsorted(ends, last)) + 1
        )
        columns = [field.name for field in EVENT_SCHEMA if field.name != "label"]
        table = file.read_row_groups(list(groups), columns=columns)
    begin = int(ends[groups[0]]) - lengths[groups[0]]
    table = check_events(table.slice(first - begin, last - first), where=path.name)
    owner = pc.subtract(table["patient"], outline.patients[n])
    table = table.set_column(0, EVENT_SCHEMA.field("patient"), owner)
    part = counted(table, axes, rule, outline.patients[n + 1] - outline.patients[n])
    return in_blocks(part) if isinstance(part, Cells) else part


@contextmanager
def _shelf(path: Path, rule: CountingRule) -> Iterator[tuple[Path, Path | None]]:
    """Where nameless files go, and where parts are kept: None outside a hospital's folder.

    Parts of other events or of another rule are removed; who reads them has them open.
    """
    if not (path.parent / "local").is_dir():
        yield Path(tempfile.gettempdir()), None
        return
    folder = owners_folder(path.parent / "local" / "parts")
    status = path.stat()
    key = fingerprint([FORM, status.st_size, status.st_mtime_ns, asdict(rule)])[:32]
    with (folder / "lock").open("ab") as stream:
        lock(stream.fileno(), wait=True)
        for other in folder.iterdir():
            if other.is_dir() and other.name != key:
                shutil.rmtree(other)
        yield folder, owners_folder(folder / key)
