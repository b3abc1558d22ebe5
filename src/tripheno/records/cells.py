"""Ready-made cells (patient, modes…, value) as events.

A cell of count v becomes v windows in which its codes, and nothing else, occur together. Counting
those events by visit gives back exactly the cells.
"""

from __future__ import annotations

import gzip
from pathlib import Path

from tripheno.errors import BadCells, SettingsError, UnknownRecords
from tripheno.provenance import file_fingerprint
from tripheno.records.duck import Workbench, identifier, literal, sql_text
from tripheno.records.source import Extract, IngestSettings, Plan
from tripheno.records.tables import FolderOrigin


def is_tns(path: Path) -> bool:
    """Whether a file is a FROSTT tensor."""
    return path.is_file() and path.name.lower().endswith((".tns", ".tns.gz"))


class CellsPlan:
    """How cells are read."""

    def __init__(self, bench: Workbench, path: Path) -> None:
        self._bench, self._path = bench, path

    def of_tables(self, origin: FolderOrigin, settings: IngestSettings) -> Plan:
        """Cells from the one table that has the columns patient, value and the modes."""
        wanted = {"patient", "value", *settings.rule.modes}
        for name in origin.names():
            spelt = {column.lower(): column for column in origin.columns(name)}
            if {"patient", "value"} <= set(spelt):
                if not wanted <= set(spelt):
                    found = [column for column in spelt if column not in ("patient", "value")]
                    raise SettingsError(
                        f"The cells have the modes {', '.join(found)}",
                        where=origin.shown(name),
                        fix="name them with --modes",
                    )
                columns = [identifier(spelt[mode]) for mode in settings.rule.modes]
                patient, value = identifier(spelt["patient"]), identifier(spelt["value"])
                relation = origin.relation(name, ())
                inputs = origin.fingerprints([name])
                return self._plan(settings, patient, columns, value, relation, inputs, name)
        raise UnknownRecords(
            "Neither a column mapping nor cells",
            where=self._path.name,
            why="cells have the columns patient, one per mode, and value",
            fix="describe the tables in a site.toml and name it with --settings",
        )

    def of_tns(self, settings: IngestSettings) -> Plan:
        """Cells from a FROSTT tensor: one line a cell, indices from 1, the count last."""
        width = _tns_width(self._path)
        if width != len(settings.rule.modes) + 2:
            raise SettingsError(
                f"The tensor has {width - 2} feature modes, --modes names {len(settings.rule.modes)}",
                where=self._path.name,
            )
        listed = ", ".join(f"'c{n}': 'VARCHAR'" for n in range(width))
        relation = (
            f"read_csv({literal(str(self._path))}, auto_detect = false, header = false, "
            f"delim = ' ', comment = '#', columns = {{{listed}}})"
        )
        columns = [f"c{n}" for n in range(1, width - 1)]
        inputs = {self._path.name: file_fingerprint(self._path)}
        return self._plan(
            settings, "c0", columns, f"c{width - 1}", relation, inputs, self._path.name
        )

    def _plan(
        self,
        settings: IngestSettings,
        patient: str,
        columns: list[str],
        value: str,
        relation: str,
        inputs: dict[str, str],
        shown: str,
    ) -> Plan:
        if settings.rule.window != "visit":
            raise SettingsError("cells are counted already", fix="leave out --window")
        listed = ", ".join(f"CAST({column} AS VARCHAR) AS m{n}" for n, column in enumerate(columns))
        self._bench.run(
            sql_text("cells").format(
                patient=patient, columns=listed, value=value, relation=relation
            )
        )
        self._check()
        extracts = tuple(
            Extract(mode, shown, sql_text("cells_mode").format(column=f"m{n}"))
            for n, mode in enumerate(settings.rule.modes)
        )
        return Plan("ready-made cells", extracts, inputs)

    def _check(self) -> None:
        """A cell is a count: whole and above zero."""
        wrong, blank, total = self._bench.rows(
            "SELECT count(*) FILTER (value IS NULL OR value < 1 OR value <> floor(value)), "
            "count(*) FILTER (patient IS NULL), count(*) FROM cells"
        )[0]
        faults = [f"{wrong:,} of {total:,} values are not whole counts above 0"] if wrong else []
        faults += [f"{blank:,} cells have no patient"] if blank else []
        if faults:
            raise BadCells("; ".join(faults), where=self._path.name)


def _tns_width(path: Path) -> int:
    """How many numbers a line has."""
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8") as stream:
        for line in stream:
            if line.strip() and not line.startswith("#"):
                return len(line.split())
    raise BadCells("no cells", where=path.name)
