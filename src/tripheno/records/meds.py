"""MEDS, the Medical Event Data Standard: one long table of subject, time, code and value.

A code's prefix says which mode it belongs to. The defaults fit the public ETLs (MIMIC-IV, eICU,
OMOP); ``--prefix MODE=PREFIX`` declares others. Codes stay as they stand.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tripheno.errors import DoubtfulTable, MissingTable, NoSuchFile, UnknownRecords
from tripheno.provenance import file_fingerprint
from tripheno.records.duck import Workbench, literal, literals, sql_text
from tripheno.records.origins import is_copy
from tripheno.records.source import Extract, IngestSettings, ReadingPlan
from tripheno.records.tables import canonical, cleaned
from tripheno.records.textfile import NOBODY

PREFIXES = {
    "medication": ("MEDICATION//START//", "DRUG//", "RxNorm/", "RxNorm Extension/"),
    "diagnosis": ("DIAGNOSIS//", "CONDITION//", "ICD9CM/", "ICD10CM/"),
    "procedure": ("PROCEDURE//ICD//", "PROCEDURE//START//", "ICD9Proc/", "ICD10PCS/", "CPT4/"),
    "lab": ("LAB//", "LOINC/"),
}
_VISITS = ("hadm_id", "visit_id", "encounter_id", "visit_occurrence_id")
_SITES = ("site", "hospital", "hospitalid", "care_site_id")
_STANDARD = {"subject_id": "BIGINT", "time": "TIMESTAMP", "code": "VARCHAR"}
_BEGIN = ("HOSPITAL_ADMISSION", "VISIT", "ADMISSION")  # the first piece, not ADMISSION_WEIGHT
_END = ("HOSPITAL_DISCHARGE", "DISCHARGE")

_ATTRIBUTES = (
    "SELECT CAST(subject_id AS VARCHAR) AS patient, min(year(time)) FILTER (code = 'MEDS_BIRTH') "
    "AS birth_year, min(code[9:]) FILTER (starts_with(code, 'GENDER//')) AS sex, "
    "bool_or(starts_with(code, 'MEDS_DEATH')) AS died FROM src.meds GROUP BY 1"
)


class MEDS:
    """A MEDS data set: ``data/**/*.parquet`` and ``metadata/codes.parquet``."""

    name = "meds"
    modes = tuple(PREFIXES)
    divisions = ("site",)
    options = ("prefixes",)

    def plan(self, bench: Workbench, path: str, settings: IngestSettings) -> ReadingPlan:
        """Find the shards, the names of the codes, and what tells visits apart."""
        root = Path(path)
        if not root.exists():
            raise NoSuchFile(f"No file or folder {root}", fix="check the path, from where you are")
        files = _shards(root)
        inputs = {file.relative_to(root).as_posix(): file_fingerprint(file) for file in files}
        _refuse_doubt(inputs)
        columns = _open(bench, files)
        visit = next((name for name in _VISITS if name in columns), None)
        site = next((name for name in _SITES if name in columns), None)
        _names(bench, root / "metadata" / "codes.parquet")
        bench.run(
            sql_text("meds_stays"), begin=list(_BEGIN), end=list(_END), inferred=visit is None
        )
        sql = sql_text("meds").format(visit=visit or "NULL", site=site or "NULL")
        declared = {mode: tuple(found) for mode, found in settings.prefixes.items()}
        prefixes = {**PREFIXES, **declared}
        extracts = [
            Extract(mode, "data", sql, {"prefixes": list(prefixes[mode]), "nobody": list(NOBODY)})
            for mode in settings.rule.modes
        ]
        chosen = {mode: list(prefixes[mode]) for mode in settings.rule.modes}
        facts = {"prefixes": chosen, "visits": visit or "from admission events"}
        unread = sorted(
            file.relative_to(root).as_posix()
            for file in root.glob("data/**/*")
            if file.is_file() and file not in files and not file.name.startswith(("_", "."))
        )
        rivals = [name for name in _VISITS if name in columns and name != visit]
        warnings = [f"not read: {', '.join(unread[:5])}"] if unread else []
        warnings += [f"data: '{visit}' is read, not {', '.join(rivals)}"] if rivals else []
        return ReadingPlan(
            "MEDS",
            tuple(extracts),
            inputs,
            facts,
            tuple(warnings),
            visits_are_unique=visit is not None,
            attributes=_ATTRIBUTES,
        )


def _shards(root: Path) -> list[Path]:
    """The Parquet files of the data, whatever their folders."""
    found = sorted((root / "data" if (root / "data").is_dir() else root).glob("**/*.parquet"))
    shards = [
        file
        for file in found
        if not any(p.startswith((".", "_", "metadata")) for p in file.relative_to(root).parts)
    ]
    if not shards:
        raise UnknownRecords(f"No data/**/*.parquet in {root.name}", fix="name a MEDS data set")
    return shards


def _refuse_doubt(inputs: Mapping[str, str]) -> None:
    """Refuse shards that are there twice, and those of several data sets: their subjects meet."""
    parts = [name.lower().removesuffix(".parquet").split("/") for name in inputs]
    copies = [name for name, p in zip(inputs, parts, strict=True) if any(map(is_copy, p))]
    sets = {tuple(p[: p.index("data")]) for p in parts if "data" in p}
    why = "two shards are the same file" if len(set(inputs.values())) < len(inputs) else ""
    why = "they are several data sets" if len(sets) > 1 else why
    why = f"is {copies[0]} a copy or an older one?" if copies else why
    if why:
        raise DoubtfulTable(
            "The data are there more than once", why=why,
            fix="name one data set, and move what is not meant out of its folder",
        )  # fmt: skip


def _open(bench: Workbench, files: list[Path]) -> set[str]:
    """One view of all shards in the types of the standard, and the columns they have."""
    bench.run("CREATE SCHEMA IF NOT EXISTS src")
    reader = f"read_parquet([{literals(map(str, files))}], union_by_name = true)"
    types = {str(row[0]).lower(): str(row[1]) for row in bench.rows(f"DESCRIBE FROM {reader}")}
    absent = [name for name in ("subject_id", "time", "code") if name not in types]
    if absent:
        raise MissingTable(
            f"The data have no column '{', '.join(absent)}'",
            where=files[0].name,
            why="found instead: " + ", ".join(sorted(types)),
            fix="MEDS has subject_id, time, code and numeric_value",
        )
    kinds = {"subject_id": "id", "time": "time", "code": "text", **dict.fromkeys(_VISITS, "id")}
    odd = {
        name: (kind, types[name])
        for name, kind in kinds.items()
        if name in types and types[name] != _STANDARD.get(name, "BIGINT")
    }
    mended = ", ".join(f"{canonical(name, *read)} AS {name}" for name, read in odd.items())
    replaced = f" REPLACE ({mended})" if mended else ""
    relation = cleaned(reader, odd, bench.missing)
    bench.run(f"CREATE VIEW src.meds AS SELECT *{replaced} FROM {relation}")  # noqa: S608
    return set(types)


def _names(bench: Workbench, codes: Path) -> None:
    """The descriptions of codes; a code without one is called after its parent."""
    held = "SELECT NULL::VARCHAR AS code, NULL::VARCHAR AS label WHERE false"
    if codes.is_file():
        reader = f"read_parquet({literal(str(codes))})"
        have = {str(row[0]).lower(): str(row[1]) for row in bench.rows(f"DESCRIBE FROM {reader}")}
        label = "description" if "description" in have else "NULL"
        several = have.get("parent_codes", "").endswith("]")
        parent = "parent_codes[1]" if several else "NULL"
        held = sql_text("meds_names").format(reader=reader, label=label, parent=parent)
    bench.run(f"CREATE TABLE meds_names AS {held}")
