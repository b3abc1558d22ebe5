"""What a FHIR server exports: NDJSON, arrays or Bundles, R4 or R5; each resource has its type."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

from tripheno.errors import MissingTable, NoSuchFile, UnknownRecords, UnreadableTable
from tripheno.provenance import file_fingerprint
from tripheno.records.delimited import plain_text
from tripheno.records.duck import Workbench, literal, sql_text
from tripheno.records.origins import NO_RECORDS, files_in
from tripheno.records.source import Extract, IngestSettings, ReadingPlan
from tripheno.records.textfile import kind_of, lines

_LINES = (".ndjson", ".jsonl")
_PACKED = (".gz", ".zst")
_SUFFIXES = (*_LINES, ".json")
RESOURCES = {
    "medication": ("MedicationRequest", "MedicationAdministration"),
    "diagnosis": ("Condition",),
    "lab": ("Observation",),
    "procedure": ("Procedure",),
}
_ORDERS = {  # when an order or a dose begins and ends, and what else says that it never was
    "MedicationRequest": {
        "starts": "coalesce(field(json, '$.dispenseRequest.validityPeriod.start'), field(json, "
        "'$.dosageInstruction[0].timing.repeat.boundsPeriod.start'), field(json, '$.authoredOn'))",
        "ends": "coalesce(field(json, '$.dispenseRequest.validityPeriod.end'), "
        "field(json, '$.dosageInstruction[0].timing.repeat.boundsPeriod.end'))",
        "never": "lower(field(json, '$.doNotPerform')) = 'true' "
        "OR lower(field(json, '$.intent')) IN ('proposal', 'plan', 'option')",
    },
    "MedicationAdministration": {
        "starts": "coalesce(field(json, '$.effectiveDateTime'), "
        "field(json, '$.effectivePeriod.start'), given_at(json))",
        "ends": "coalesce(field(json, '$.effectivePeriod.end'), "
        "field(json, '$.occurencePeriod.end'), field(json, '$.occurrencePeriod.end'))",
        "never": "'true' IN "
        "(lower(field(json, '$.notGiven')), lower(field(json, '$.wasNotGiven')))",
    },
}
_UNREAD = ("MedicationStatement", "MedicationDispense", "MedicationOrder")
_SHARED = ("Encounter", "Medication", "Patient")

_ATTRIBUTES = (
    "SELECT id AS patient, try_cast(left(field(json, '$.birthDate'), 4) AS INTEGER) AS birth_year, "
    "field(json, '$.gender') AS sex, coalesce(field(json, '$.deceasedBoolean') = 'true', "
    "field(json, '$.deceasedDateTime') IS NOT NULL) AS died FROM src.patient WHERE NOT stale"
)


class FHIR:
    """What a FHIR server exports in bulk, or hands out as Bundles."""

    name = "fhir"
    modes = tuple(RESOURCES)
    divisions: tuple[str, ...] = ()
    options: tuple[str, ...] = ()

    def plan(self, bench: Workbench, path: str, settings: IngestSettings) -> ReadingPlan:
        """Sort the resources by their type, and open those that the modes need."""
        files, unread = _files(Path(path))
        bench.script("fhir_macros")
        kinds = _gather(bench, files, settings)
        bench.script("fhir_medications")
        bench.run(sql_text("fhir_encounters"))
        extracts = []
        for mode in settings.rule.modes:
            present = [resource for resource in RESOURCES[mode] if resource in kinds]
            if not present:
                raise MissingTable(
                    f"No resource {' or '.join(RESOURCES[mode])}",
                    where=Path(path).name,
                    why="found instead: " + ", ".join(sorted(kinds)),
                    fix=f"export it, or leave out the mode '{mode}'",
                )
            for resource in present:
                extracts.append(_extract(mode, resource, known="Encounter" in kinds))
        inputs = {file.name: file_fingerprint(file) for file in files}
        pages = {page: kinds.pop(page, 0) for page in ("page", "last page")}
        followed = bench.rows("SELECT count(*) FROM encounters WHERE stay <> id")[0][0]
        facts = {"resources": kinds, "encounters_within_a_stay": followed}
        warnings = (*unread, *_warnings(bench, kinds, settings))
        if pages["page"] and not pages["last page"]:
            warnings += ("the last page of a search is missing: are all pages here?",)
        return ReadingPlan(
            "FHIR export",
            tuple(extracts),
            inputs,
            facts,
            warnings,
            names_drugs=True,
            attributes=_ATTRIBUTES if "Patient" in kinds else None,
        )


def _extract(mode: str, resource: str, *, known: bool) -> Extract:
    """One type of resource on its way into a mode; only drugs are called as --drug-names says."""
    orders = _ORDERS.get(resource)
    inner = sql_text("fhir_medication" if orders else f"fhir_{resource.lower()}")
    given = inner.format(view=resource.lower(), **orders) if orders else inner
    named = {} if orders else {"drug_names": "folded", "strip_strength": False}
    return Extract(
        mode,
        resource,
        sql_text("fhir_events").replace("{resource}", given),
        {"encounters_known": known, "named": bool(orders), **named},
    )


def _warnings(bench: Workbench, kinds: dict[str, int], settings: IngestSettings) -> tuple[str, ...]:
    """What the export lacks, what is odd about it, and what it has that is not read."""
    ((orphans, circles),) = bench.rows(
        "SELECT count(*) FILTER (orphan), count(*) FILTER (in_circle) FROM encounters"
    )
    ((servers,),) = bench.rows("SELECT count(DISTINCT server) FROM resources")
    ((replaced,),) = bench.rows(
        "SELECT count(*) FROM src.patient "
        "WHERE NOT stale AND list_contains(field(json, '$.link[*].type'), 'replaced-by')"
    )
    found = [] if "Encounter" in kinds else ["no Encounter: visit ids are taken as they are"]
    found += [
        f"{count:,} {words}"
        for count, words in (
            (orphans, "encounters are part of one that the export does not have"),
            (circles, "encounters are part of themselves: taken as one stay"),
            (replaced, "patients were replaced by others (merged): they count apart"),
            (servers if servers > 1 else 0, "servers are named: the same id on two is one patient"),
        )
        if count
    ]
    for unread in _UNREAD if "medication" in settings.rule.modes else ():
        if unread in kinds:
            found.append(f"{kinds[unread]:,} {unread} are not read: no order and nothing given")
    return tuple(found)


def _files(path: Path) -> tuple[list[Path], tuple[str, ...]]:
    """The files whose names are those of FHIR exports, and a word about the others."""
    if not path.exists():
        raise NoSuchFile(f"No file or folder {path}", fix="check the path, from where you are")
    given = files_in(path)
    found = [file for file in given if _unpacked(file.name).endswith(_SUFFIXES)]
    if not found:
        raise UnknownRecords(
            f"No FHIR resources in {path.name}", why="looked for " + ", ".join(_SUFFIXES)
        )
    other = {file.name for file in given} - {file.name for file in found}
    unread = sorted(name for name in other if not name.lower().endswith((*NO_RECORDS, ".txt")))
    said = f"not read: {', '.join(unread[:5])}{' …' if len(unread) > 5 else ''}"
    return sorted(found), (said,) if unread else ()


def _unpacked(name: str) -> str:
    lower = name.lower()
    return lower.removesuffix(next((end for end in _PACKED if lower.endswith(end)), ""))


def _gather(bench: Workbench, files: list[Path], settings: IngestSettings) -> dict[str, int]:
    """Put the resources aside, a view for each type, and say how many there are of each."""
    wanted = tuple(name for names in RESOURCES.values() for name in names)
    asked = [name for mode in settings.rule.modes for name in RESOURCES[mode]]
    readers = " UNION ALL ".join(_reader(bench, file) for file in files)
    sql = sql_text("fhir_resources").replace("{readers}", readers)
    bench.view("resources", [bench.keep(sql, "resources", needed=[*_SHARED, *asked])])
    counted = bench.rows("SELECT kind, count(*) FROM resources GROUP BY 1 ORDER BY 1")
    kinds = {kind: int(count) for kind, count in counted}
    if None in kinds:
        raise UnreadableTable(
            "A file holds no FHIR resources",
            where=files[0].name if len(files) == 1 else f"one of {len(files)} files",
            why=f"{kinds[None]:,} entries have no resourceType",
        )
    bench.run("CREATE SCHEMA IF NOT EXISTS src")
    for resource in (*_SHARED, *wanted):
        bench.run(
            f"CREATE VIEW src.{resource.lower()} AS SELECT id, json, id IS NOT NULL "  # noqa: S608
            "AND row_number() OVER (PARTITION BY id ORDER BY updated DESC NULLS LAST, json) > 1 "
            "AS stale "
            f"FROM resources WHERE kind = {literal(resource)} AND json IS NOT NULL"
        )
    return kinds


def _reader(bench: Workbench, given: Path) -> str:
    """A call of DuckDB's JSON reader; the first line says whether each line is a resource."""
    file = plain_text(bench, given, accepted=("utf-8",))
    packed = {"text": "none"}.get(kind_of(file), kind_of(file))
    form = "newline_delimited" if _is_by_line(file) else "auto"
    largest = max(16 << 20, 0 if form != "auto" else 2 * file.stat().st_size)
    return (
        f"SELECT json FROM read_json_objects({literal(str(file))}, format = '{form}', "  # noqa: S608
        f"compression = '{packed}', maximum_object_size = {largest})"
    )


def _is_by_line(file: Path) -> bool:
    """Whether the first line that is not blank is a whole JSON value, or too long to say."""
    if not _unpacked(file.name).endswith(_LINES):
        return False
    for line in islice(lines(file), 100):
        if line.strip():
            return line.strip().startswith(("{", "[")) and line.strip().endswith(("}", "]"))
    return True
