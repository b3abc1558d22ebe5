"""Ready-made cells (patient, modes…, value) as events.

A cell of count v becomes v windows in which its codes, and nothing else, occur together. Counting
those events by visit gives back exactly the cells.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tripheno.errors import BadCells, DoubtfulTable, SettingsError, UnknownRecords
from tripheno.provenance import file_fingerprint
from tripheno.records.catalog import TableOrigin
from tripheno.records.delimited import plain_text
from tripheno.records.duck import Workbench, identifier, literal, literals, sql_text
from tripheno.records.origins import stem_of
from tripheno.records.source import Extract, IngestSettings, ReadingPlan
from tripheno.records.textfile import NOBODY, kind_of, lines

_LARGEST = 2**32 - 1
_NO_MODES = ("patient", "value")


@dataclass(frozen=True)
class CellFile:
    """Where cells stand: what to read, and which column is what."""

    shown: str
    relation: str
    patient: str
    modes: tuple[str, ...]
    value: str
    inputs: Mapping[str, str]
    positions: bool = False
    """Whether patients and codes are positions, as in a FROSTT tensor."""
    warnings: tuple[str, ...] = ()


def is_tns(path: Path) -> bool:
    """Whether a file is a FROSTT tensor."""
    return path.is_file() and path.name.lower().endswith((".tns", ".tns.gz"))


def cells_in_tables(origin: TableOrigin, settings: IngestSettings) -> CellFile:
    """The one table that has the columns patient, value and the modes."""
    name = _table_of_cells(origin)
    spelt = {column.lower(): column for column in origin.columns(name)}
    other = [column for column in spelt if column not in (*_NO_MODES, *settings.rule.modes)]
    if not set(settings.rule.modes) <= set(spelt):
        raise SettingsError(
            f"The cells have the modes {', '.join(c for c in spelt if c not in _NO_MODES)}",
            where=origin.shown(name),
            fix="name them with --modes",
        )
    types = {
        column.lower(): "real" if "real" in origin.kinds_held(name, column) else kind
        for column, kind in origin.columns(name).items()
    }
    _refuse_types(types, settings.rule.modes, origin.shown(name))
    named = [column for column in other if not column.startswith("column ")]
    added = f"{origin.shown(name)}: cells are added over {', '.join(named)}"
    return CellFile(
        shown=origin.shown(name),
        relation=origin.relation(name, ()),
        patient=identifier(spelt["patient"]),
        modes=tuple(identifier(spelt[mode]) for mode in settings.rule.modes),
        value=identifier(spelt["value"]),
        inputs=origin.fingerprints([name]),
        warnings=(added,) if named else (),
    )


def _table_of_cells(origin: TableOrigin) -> str:
    """The name of the table that holds cells. Of numbered files it is the whole; several others
    would be one hospital's or many's, and nobody said which.
    """
    names = origin.names()
    wholes = {stem for name in names if (stem := stem_of(name)) in names}
    held = [n for n in names if n not in wholes and {"patient", "value"} <= _columns(origin, n)]
    found = sorted({stem if (stem := stem_of(name)) in wholes else name for name in held})
    if len(found) > 1:
        raise DoubtfulTable(
            f"{len(found)} tables hold cells: {', '.join(found[:5])}",
            where=origin.title,
            fix="name the file that is meant; parts of one table differ by a number",
        )
    if not found:
        raise UnknownRecords(
            "Neither a column mapping nor cells",
            where=origin.title,
            why="cells have the columns patient, one per mode, and value",
            fix="describe the tables in a site.toml and name it with --settings",
        )
    return str(found[0])


def _columns(origin: TableOrigin, name: str) -> set[str]:
    return {column.lower() for column in origin.columns(name)}


def _refuse_types(types: Mapping[str, str], modes: Sequence[str], where: str) -> None:
    """Ids and codes are text or whole numbers, counts are numbers."""
    faults = [
        f"'{name}' holds codes as {types[name]}: write them as text"
        for name in ("patient", *modes)
        if not re.fullmatch(r"VARCHAR|BLOB|ENUM\(.*\)|U?\w*INT(EGER)?", types[name].upper())
    ]
    if types["value"].upper() == "BOOLEAN":
        faults.append("'value' holds yes and no, not counts")
    if faults:
        raise BadCells("; ".join(faults), where=where)


def cells_in_tns(bench: Workbench, path: Path, settings: IngestSettings) -> CellFile:
    """A FROSTT tensor: one line a cell, indices from 1, the count last."""
    width, asked = _tns_width(path, bench.encoding), len(settings.rule.modes)
    if width != asked + 2:
        raise SettingsError(
            f"The tensor has {width - 2} feature modes, --modes names {asked}", where=path.name
        )
    readable = plain_text(bench, path)
    packed = {"text": "none"}.get(kind_of(readable), kind_of(readable))
    relation = sql_text("cells_tns").format(
        file=literal(str(readable)), compression=literal(packed), width=width
    )
    return CellFile(
        shown=path.name,
        relation=f"({relation})",
        patient="held[1]",
        modes=tuple(f"held[{n}]" for n in range(2, width)),
        value=f"held[{width}]",
        inputs={path.name: file_fingerprint(path)},
        positions=True,
    )


def plan_of_cells(bench: Workbench, file: CellFile, settings: IngestSettings) -> ReadingPlan:
    """Read the cells, refuse what is no count, and give every mode its extract."""
    if settings.rule.window != "visit":
        raise SettingsError("cells are counted already", fix="leave out --window")
    words = literals(bench.missing)
    codes = (
        f"CASE WHEN tidy(CAST({column} AS VARCHAR)) NOT IN ({words}) "
        f"THEN tidy(CAST({column} AS VARCHAR)) END AS m{n}"
        for n, column in enumerate(file.modes)
    )
    bench.run(
        sql_text("cells").format(
            patient=file.patient,
            nobody=literals([word.lower() for word in (*bench.missing, *NOBODY)]),
            columns=", ".join(codes),
            value=file.value,
            relation=file.relation,
        )
    )
    _refuse_faults(bench, file)
    places = ", ".join(("patient", *(f"m{n}" for n in range(len(file.modes)))))
    ((again,),) = bench.rows(
        f"SELECT sum(n - 1) FROM (SELECT count(*) AS n FROM cells GROUP BY {places})"  # noqa: S608
    )
    said = (f"{file.shown}: {again:,} cells repeat the place of another: added",) if again else ()
    extracts = tuple(
        Extract(mode, file.shown, sql_text("cells_mode").format(column=f"m{n}"))
        for n, mode in enumerate(settings.rule.modes)
    )
    return ReadingPlan(
        "ready-made cells",
        extracts,
        file.inputs,
        warnings=(*file.warnings, *said),
        visits_are_unique=False,
    )


def _refuse_faults(bench: Workbench, file: CellFile) -> None:
    """Refuse cells without a patient, a code or a count."""
    nothing = " OR ".join(f"m{n} IS NULL" for n in range(len(file.modes)))
    wrong, blank, bare, total = bench.rows(
        "SELECT count(*) FILTER "  # noqa: S608
        f"(value IS NULL OR value > {_LARGEST} OR value < 1 OR value <> floor(value)), "
        f"count(*) FILTER (patient IS NULL), count(*) FILTER ({nothing}), count(*) FROM cells"
    )[0]
    counts = f"whole counts from 1 to {_LARGEST:,}"
    faults = [f"{wrong:,} of {total:,} values are not {counts}"] if wrong else []
    faults += [f"{blank:,} cells have no patient"] if blank else []
    faults += [f"{bare:,} cells lack a code"] if bare else []
    if file.positions:
        columns = ("patient", *(f"m{n}" for n in range(len(file.modes))))
        no = " OR ".join(f"NOT regexp_full_match({column}, '\\d+')" for column in columns)
        odd = bench.rows(f"SELECT count(*) FROM cells WHERE {no}")[0][0]  # noqa: S608
        faults += [f"{odd:,} cells have positions that are not whole numbers"] if odd else []
    if faults:
        raise BadCells("; ".join(faults), where=file.shown)


def _tns_width(path: Path, encoding: str | None) -> int:
    """How many numbers a line has."""
    for line in lines(path, encoding):
        if held := line.partition("#")[0].split():
            return len(held)
    raise BadCells("no cells", where=path.name)
