"""A hospital's own tables, read by a column mapping; and ready-made cells."""

from __future__ import annotations

from pathlib import Path

from tripheno.errors import MissingTable, NoSuchFile, SettingsError
from tripheno.records.cells import cells_in_tables, cells_in_tns, is_tns, plan_of_cells
from tripheno.records.duck import Workbench, identifier, literal, sql_text
from tripheno.records.mapping import TableMapping, read_mapping
from tripheno.records.source import Extract, IngestSettings, Plan
from tripheno.records.tables import Column, FolderOrigin, TableNeed, Tables, table_name

MAPPING_FILE = "site.toml"


class Flat:
    """Any CSV or Parquet tables. Its modes are those that the mapping names."""

    name = "flat"
    modes: tuple[str, ...] = ()
    divisions = ("hospital",)
    options = ("mapping",)

    def plan(self, bench: Workbench, path: str, settings: IngestSettings) -> Plan:
        """Read the mapping, or recognise cells by their columns (patient, modes…, value)."""
        place = Path(path)
        if not place.exists():
            raise NoSuchFile(f"No file or folder {place}", fix="check the path, from where you are")
        mapping = settings.mapping
        if mapping is None and place.is_dir() and (place / MAPPING_FILE).is_file():
            mapping = place / MAPPING_FILE
        if is_tns(place):
            return plan_of_cells(bench, cells_in_tns(place, settings), settings)
        origin = FolderOrigin(bench, place)
        if mapping is None:
            return plan_of_cells(bench, cells_in_tables(origin, settings), settings)
        return _mapped(bench, origin, read_mapping(mapping), settings)


def _mapped(
    bench: Workbench,
    origin: FolderOrigin,
    mappings: tuple[TableMapping, ...],
    settings: IngestSettings,
) -> Plan:
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
        extracts.append(
            Extract(mapping.mode, mapping.file, _select(view, mapping), _bound(mapping))
        )
    inputs = origin.fingerprints(sorted(set(tables.opened.values())))
    return Plan("tables of the hospital's own", tuple(extracts), inputs)


def _open(tables: Tables, view: str, mapping: TableMapping) -> None:
    name = table_name(mapping.file)
    if not tables.has(name):
        raise MissingTable(
            f"No file '{mapping.file}'",
            where=tables.origin.title,
            why="found instead: " + ", ".join(sorted(tables.origin.names())[:12]),
            fix="file names in the mapping are those in the folder on the command line",
        )
    kinds = {mapping.patient: "id", mapping.visit: "id", mapping.time: "time", mapping.end: "time"}
    others = (*mapping.code, *mapping.flags, mapping.label, mapping.hospital, mapping.only_column)
    for column in others:
        kinds.setdefault(column, "text")
    columns = [
        Column((column.lower(),), kind, required=True)
        for column, kind in kinds.items()
        if column is not None
    ]
    tables.open(TableNeed((view, name), tuple(columns)))


def _select(view: str, mapping: TableMapping) -> str:
    """The extract's SQL: identifiers are quoted here, values are bound when it runs."""

    def column(name: str | None, otherwise: str) -> str:
        return identifier(name.lower()) if name is not None else otherwise

    if mapping.flags:
        given = ", ".join(
            f"CASE WHEN {column(flag, '')} IS NOT NULL AND NOT list_contains($absent, "
            f"trim({column(flag, '')})) AND NOT list_contains($missing, trim({column(flag, '')})) "
            f"THEN {literal(flag)} END"
            for flag in mapping.flags
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
        "absent": list(mapping.absent),
        "kinds": list(mapping.only_values),
        "filtered": mapping.only_column is not None,
        "flagged": bool(mapping.flags),
        "system": mapping.system,
        "named": mapping.mode == "medication",
    }
