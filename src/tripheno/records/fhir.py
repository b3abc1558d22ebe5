"""FHIR R4 bulk export: NDJSON files, one resource type each."""

from __future__ import annotations

import json
from pathlib import Path

from tripheno.errors import MissingTable, NoSuchFile, UnknownRecords, UnreadableTable
from tripheno.provenance import file_fingerprint
from tripheno.records.duck import Workbench, literal, sql_text
from tripheno.records.source import Extract, IngestSettings, Plan
from tripheno.records.textfile import first_line

_SUFFIXES = (".ndjson", ".ndjson.gz", ".jsonl", ".jsonl.gz")
RESOURCES = {
    "medication": ("MedicationRequest", "MedicationAdministration"),
    "diagnosis": ("Condition",),
    "lab": ("Observation",),
    "procedure": ("Procedure",),
}
_SHARED = ("Encounter", "Medication")


class FHIR:
    """What a FHIR server exports in bulk."""

    name = "fhir"
    modes = tuple(RESOURCES)
    divisions: tuple[str, ...] = ()
    options: tuple[str, ...] = ()

    def plan(self, bench: Workbench, path: str, settings: IngestSettings) -> Plan:
        """Sort the files by the resource they hold, and open those that the modes need."""
        files = _files_by_resource(Path(path))
        bench.script("fhir_macros")
        bench.run("CREATE SCHEMA IF NOT EXISTS src")
        for resource in (*_SHARED, *(name for names in RESOURCES.values() for name in names)):
            _open(bench, resource, files.get(resource, []))
        bench.script("fhir_medications")
        bench.run(sql_text("fhir_encounters"))
        extracts = []
        for mode in settings.rule.modes:
            present = [resource for resource in RESOURCES[mode] if resource in files]
            if not present:
                raise MissingTable(
                    f"No resource {' or '.join(RESOURCES[mode])}",
                    where=Path(path).name,
                    why="found instead: " + ", ".join(sorted(files)),
                    fix=f"export it, or leave out the mode '{mode}'",
                )
            for resource in present:
                sql = sql_text(f"fhir_{resource.lower()}")
                known = {"encounters_known": "Encounter" in files}
                extracts.append(Extract(mode, resource, sql, known))
        used = {*_SHARED, *(extract.table for extract in extracts)}
        inputs = {
            file.name: file_fingerprint(file)
            for resource in sorted(used)
            for file in files.get(resource, [])
        }
        warnings = (
            () if "Encounter" in files else ("no Encounter: visit ids are taken as they are",)
        )
        return Plan(
            "FHIR R4 bulk export", tuple(extracts), inputs, warnings=warnings, names_drugs=True
        )


def _files_by_resource(path: Path) -> dict[str, list[Path]]:
    """Which files hold which resource; the first line of each tells."""
    if not path.exists():
        raise NoSuchFile(f"No file or folder {path}", fix="check the path, from where you are")
    found = [path] if path.is_file() else [*path.glob("*"), *path.glob("*/*")]
    files: dict[str, list[Path]] = {}
    for file in sorted(f for f in found if f.name.lower().endswith(_SUFFIXES)):
        line = first_line(file)
        if not line.strip():
            continue
        try:
            resource = json.loads(line)["resourceType"]
        except (ValueError, KeyError, TypeError):
            raise UnreadableTable(
                "A file holds no FHIR resources", where=f"{file.name} line 1"
            ) from None
        files.setdefault(str(resource), []).append(file)
    if not files:
        raise UnknownRecords(
            f"No FHIR resources in {path.name}", why="looked for " + ", ".join(_SUFFIXES)
        )
    return files


def _open(bench: Workbench, resource: str, files: list[Path]) -> None:
    view = f"src.{resource.lower()}"
    if not files:
        bench.run(f"CREATE VIEW {view} AS SELECT NULL::JSON AS json WHERE false")
        return
    listed = ", ".join(literal(str(file)) for file in files)
    reader = f"read_json_objects([{listed}], format = 'newline_delimited')"
    kind = f"json_extract_string(json, '$.resourceType') = {literal(resource)}"
    bench.run(f"CREATE VIEW {view} AS SELECT json FROM {reader} WHERE {kind}")  # noqa: S608
