"""A hospital's own tables, read by a column mapping; and ready-made cells."""

from __future__ import annotations

import re
from pathlib import Path

from tripheno.errors import MissingTable, SettingsError
from tripheno.records.catalog import TableOrigin
from tripheno.records.cells import cells_in_tables, cells_in_tns, is_tns, plan_of_cells
from tripheno.records.duck import Workbench, identifier, literal, sql_text
from tripheno.records.mapping import TableMapping, read_mapping
from tripheno.records.origins import origin_of, table_name
from tripheno.records.source import Extract, IngestSettings, ReadingPlan
from tripheno.records.tables import Column, TableNeed, Tables

MAPPING_FILE = "site.toml"
_YES = ("yes", "y", "true", "t", "1", "1.0", "0.0", "given", "x", "+")


class Flat:
    """Any CSV or Parquet tables. Its modes are those that the mapping names."""

    name = "flat"
    modes: tuple[str, ...] = ()
    divisions = ("hospital",)
    options = ("mapping", "schema")

    def plan(self, bench: Workbench, path: str, settings: IngestSettings) -> ReadingPlan:
        """Read the mapping, or recognise cells by their columns (patient, modes…, value)."""
        place = Path(path)
        mapping = settings.mapping
        if mapping is None and place.is_dir() and (place / MAPPING_FILE).is_file():
            mapping = place / MAPPING_FILE
        if is_tns(place):
            return plan_of_cells(bench, cells_in_tns(bench, place, settings), settings)
        origin = origin_of(bench, path, settings.schema)
        if mapping is None:
            return plan_of_cells(bench, cells_in_tables(origin, settings), settings)
        return _mapped(bench, origin, read_mapping(mapping), settings)


def _mapped(
    bench: Workbench,
    origin: TableOrigin,
    mappings: tuple[TableMapping, ...],
    settings: IngestSettings,
) -> ReadingPlan:
    tables = Tables(bench, origin)
    offered = {mapping.mode for mapping in mappings}
    absent = [mode for mode in settings.rule.modes if mode not in offered]
    if absent:
        raise SettingsError(
            f"The mapping has no mode '{', '.join(absent)}'",
            why=f"it has {', '.join(sorted(offered))}",
            fix="name its modes with --modes",
        )
    extracts = []
    for number, mapping in enumerate(mappings):
        if mapping.mode not in settings.rule.modes:
            continue
        view = f"flat_{number}"
        _open(tables, view, mapping)
        tables.note(*_taken_as_given(bench, view, mapping))
        extracts.append(
            Extract(mapping.mode, mapping.file, _select(view, mapping), _bound(mapping))
        )
    inputs = origin.fingerprints(sorted(set(tables.opened.values())))
    return ReadingPlan(
        "tables of the hospital's own",
        tuple(extracts),
        inputs,
        warnings=tuple(tables.notes),
        names_drugs=True,
        visits_are_unique=False,
    )


def _open(tables: Tables, view: str, mapping: TableMapping) -> None:
    name = table_name(mapping.file)
    if not tables.has(name):
        raise MissingTable(
            f"No file '{mapping.file}'",
            where=tables.origin.title,
            why="found instead: " + ", ".join(sorted(tables.origin.names())[:12]),
            fix="file names in the mapping are those in the folder on the command line",
        )
    kinds: dict[str | None, str] = {
        mapping.patient: "id",
        mapping.visit: "id",
        mapping.time: "time",
        mapping.end: "time",
    }
    for code in mapping.code:
        kinds.setdefault(code, "icd" if mapping.icd else "code")
    others = (*mapping.flags, mapping.label, mapping.hospital, mapping.only_column)
    for column in others:
        kinds.setdefault(column, "text")
    columns = [
        Column((column.lower(),), kind, required=True)
        for column, kind in kinds.items()
        if column is not None
    ]
    tables.open(TableNeed((view, name), tuple(columns)))


def _taken_as_given(bench: Workbench, view: str, mapping: TableMapping) -> list[str]:
    """Which words in columns of flags say that a drug was given, unless they are plainly yes."""
    listed = ", ".join(f"lower(tidy({identifier(flag.lower())}))" for flag in mapping.flags)
    if not listed:
        return []
    found = bench.rows(f"SELECT DISTINCT unnest([{listed}]) FROM src.{identifier(view)}")  # noqa: S608
    nothing = {*_YES, *(word.lower() for word in (*mapping.absent, *mapping.missing))}
    words = {word for (word,) in found if word and word not in nothing}
    shown = sorted(word for word in words if re.fullmatch("[a-z*+! -]{1,10}", word))
    others = [f"{len(words) - len(shown)} other values"] if len(words) > len(shown) else []
    if not words:
        return []
    return [f"{mapping.file}: taken as given: " + ", ".join([*shown[:6], *others])]


def _select(view: str, mapping: TableMapping) -> str:
    """The extract's SQL: identifiers are quoted here, values are bound when it runs."""

    def column(name: str | None, otherwise: str) -> str:
        return identifier(name.lower()) if name is not None else otherwise

    if mapping.flags:
        given = ", ".join(
            f"CASE WHEN {value} IS NOT NULL AND NOT list_contains($absent, lower(tidy({value}))) "
            f"AND coalesce(try_cast({value} AS DOUBLE), 1) <> 0 "
            f"AND NOT list_contains($missing, tidy({value})) THEN {literal(flag)} END"
            for flag, value in ((flag, column(flag, "")) for flag in mapping.flags)
        )
    else:
        given = ", ".join(column(code, "") for code in mapping.code)
    return sql_text("flat").format(
        view=identifier(view),
        given=given,
        site=column(mapping.hospital, "NULL"),
        patient=column(mapping.patient, "NULL"),
        visit=column(mapping.visit, "NULL"),
        starts=column(mapping.time, "NULL"),
        ends=column(mapping.end, "NULL"),
        label=column(mapping.label, "NULL"),
        kind=column(mapping.only_column, "NULL"),
    )


def _bound(mapping: TableMapping) -> dict[str, object]:
    return {
        "separator": mapping.separator,
        "missing": list(mapping.missing),
        "absent": [word.lower() for word in mapping.absent],
        "kinds": list(mapping.only_values),
        "filtered": mapping.only_column is not None,
        "flagged": bool(mapping.flags),
        "system": mapping.system,
        "icd": mapping.icd,
        "named": mapping.mode == "medication",
    }
