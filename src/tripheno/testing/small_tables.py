"""Small tables written down in a test, and the cells that their events give."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pyarrow.parquet as pq

from tripheno.records.events import CountingRule, read_events
from tripheno.records.ingest import Ingested, ingest
from tripheno.records.source import IngestSettings, RecordSource
from tripheno.tensor import CountTensor


def write_tables(folder: Path, **texts: str) -> Path:
    """A folder with one CSV file per argument; lines may be indented, and fields padded."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        lines = dedent(text).strip().splitlines()
        (folder / f"{name}.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


def run_ingest(
    source: RecordSource,
    folder: Path,
    modes: tuple[str, ...] = ("medication", "diagnosis"),
    window: str = "visit",
    cap: int | None = None,
    **more: object,
) -> tuple[Path, Ingested]:
    """Ingest a folder of small tables into a site beside it. Every row read is used or dropped."""
    site = folder.with_name(folder.name + "-site")
    settings = IngestSettings(rule=CountingRule(modes, window, cap), **more)  # type: ignore[arg-type]
    result = ingest(source, str(folder), site, settings)
    for table in (*(t for s in result.sites for t in s.tables), *result.unassigned):
        assert table.read == table.used + sum(table.dropped.values()), table.table
    return site, result


def cells(site: Path) -> dict[tuple[str, ...], int]:
    """The tensor of a site as (patient's own id, codes…) → count."""
    table = read_events(site / "events.parquet")
    local = pq.read_table(site / "local" / "patients.parquet").to_pydict()
    keys = dict(zip(local["patient"], local["key"], strict=True))
    tensor = CountTensor.from_events(table)
    found: dict[tuple[str, ...], int] = {}
    for patient in range(tensor.cells.patients):
        for at in range(tensor.cells.starts[patient], tensor.cells.starts[patient + 1]):
            codes = [
                axis.codes[position]
                for axis, position in zip(tensor.axes, tensor.cells.indices[at], strict=True)
                if axis.codes is not None
            ]
            found[(str(keys[patient]), *codes)] = int(tensor.cells.values[at])
    return found
