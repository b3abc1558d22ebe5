"""Rows on disk: a CSV that grows one whole line at a time, and beside it what the rows rest on."""

from __future__ import annotations

import csv
import io
import json
import math
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from tripheno.errors import OutputExists
from tripheno.files import as_it_was, defused, write_text
from tripheno.provenance import fingerprint, provenance


@dataclass(frozen=True)
class Row:
    """One line of an experiment's CSV. Bytes are all hospitals' together."""

    x: float | str
    method: str
    variant: str
    repeat: int
    rmse_nonzeros: float
    rmse_gap: float | None  # against central
    fms: float | None  # against central
    seconds_compute: float  # slowest hospital and server
    seconds_communication: float  # all bytes at 15 MB/s
    seconds_alignment: float
    bytes_up: int
    bytes_down: int

    @property
    def key(self) -> tuple[str, str, str, int]:
        """What makes it this row and no other."""
        return (_text(self.x), self.method, self.variant, self.repeat)


COLUMNS = tuple(field.name for field in fields(Row))
Key = tuple[str, str, str, int]


def _text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, float) and math.isnan(value):
        return "nan"  # a run that ended without a result
    if isinstance(value, float):
        return f"{value:.12g}" if value != int(value) else str(int(value))
    return str(value)


def _name(row: Row) -> str:
    return " ".join(str(part) for part in row.key)


def _number(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def _row(line: dict[str, str]) -> Row:
    def optional(name: str) -> float | None:
        return float(line[name]) if line[name] else None

    return Row(
        _number(line["x"]),
        line["method"],
        line["variant"],
        int(line["repeat"]),
        float(line["rmse_nonzeros"]),
        optional("rmse_gap"),
        optional("fms"),
        float(line["seconds_compute"]),
        float(line["seconds_communication"]),
        float(line["seconds_alignment"]),
        int(line["bytes_up"]),
        int(line["bytes_down"]),
    )


def read_lines(path: Path) -> list[dict[str, str]]:
    """Whole lines of a CSV; a last line that was cut off by a crash is not one."""
    if not path.is_file():
        return []
    text = path.read_text("utf-8")
    whole = text[: text.rfind("\n") + 1]
    lines = csv.DictReader(io.StringIO(whole))
    return [{name: as_it_was(cell or "") for name, cell in line.items()} for line in lines]


def read_rows(path: Path) -> list[Row]:
    """The rows of an experiment's CSV."""
    return [_row(line) for line in read_lines(path)]


def append_lines(path: Path, columns: tuple[str, ...], lines: Iterable[dict[str, Any]]) -> None:
    """Add whole lines, on disk before this returns; a torn last line is dropped first."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_file():
        text = path.read_bytes()
        if not text.endswith(b"\n"):
            path.write_bytes(text[: text.rfind(b"\n") + 1])
    fresh = not path.is_file() or path.stat().st_size == 0
    writer = csv.writer(buffer := io.StringIO(), lineterminator="\n")
    if fresh:
        writer.writerow(columns)
    writer.writerows([_text(defused(line[name])) for name in columns] for line in lines)
    with path.open("a", encoding="utf-8") as stream:
        stream.write(buffer.getvalue())
        stream.flush()
        os.fsync(stream.fileno())


def write_json(path: Path, value: Any) -> None:
    """A JSON file, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


class RowFile:
    """An experiment's rows: ``<experiment>.csv``, and ``<experiment>.json`` with their origin."""

    def __init__(self, folder: Path, experiment: str, settings: dict[str, Any]) -> None:
        self.csv = folder / f"{experiment}.csv"
        self.json = folder / f"{experiment}.json"
        self.notes: dict[str, Any] = {
            **provenance(settings, {}), "experiment": experiment, "runs": {},
        }  # fmt: skip
        if self.json.is_file():
            self.notes = json.loads(self.json.read_text("utf-8"))
            if self.notes.get("settings_sha256") != fingerprint(settings):
                raise OutputExists(
                    f"{self.csv.name} holds rows of other settings",
                    where=str(folder),
                    fix="name another folder with --out, or repeat the settings in the .json file",
                )
        elif self.csv.is_file():
            raise OutputExists(f"{self.csv.name} was not made here", where=str(folder))
        self.rows = {row.key: row for row in read_rows(self.csv)}

    def has(self, x: float | str, method: str, variant: str, repeat: int) -> bool:
        """Whether the row was measured already."""
        return (_text(x), method, variant, repeat) in self.rows

    def get(self, x: float | str, method: str, variant: str, repeat: int) -> Row:
        """A row that was measured already."""
        return self.rows[(_text(x), method, variant, repeat)]

    def about(self, row: Row) -> dict[str, Any]:
        """What was said about a row's run."""
        return dict(self.notes["runs"].get(_name(row), {}))

    def add(self, row: Row, about: dict[str, Any]) -> None:
        """Keep a row, and what there is to say about its run."""
        self._keep([row], {_name(row): about})

    def take(self, other: RowFile, repeats: range) -> None:
        """Keep what another ledger of the same experiment has besides, of these repeats."""
        rows = [
            row for row in other.rows.values() if row.repeat in repeats and row.key not in self.rows
        ]
        if "tensors" in other.notes:
            self.notes.setdefault("tensors", {}).update(other.notes["tensors"])
        self._keep(rows, {_name(row): other.about(row) for row in rows})

    def _keep(self, rows: list[Row], runs: dict[str, Any]) -> None:
        self.notes["runs"] |= runs
        write_json(self.json, self.notes)
        append_lines(self.csv, COLUMNS, [asdict(row) for row in rows])
        self.rows |= {row.key: row for row in rows}
