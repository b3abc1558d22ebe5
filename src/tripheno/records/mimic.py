"""MIMIC-III and MIMIC-IV: prescriptions, abnormal results, ICD diagnoses and procedures."""

from __future__ import annotations

from tripheno.errors import UnknownRecords
from tripheno.records.duck import Workbench, sql_text
from tripheno.records.origins import origin_of
from tripheno.records.source import Extract, IngestSettings, ReadingPlan
from tripheno.records.tables import TableNeed, Tables

ADMISSIONS = TableNeed.of(
    "admissions", "subject_id:key hadm_id:key admittime:time dischtime:time edregtime:time?"
)
PATIENTS = TableNeed.of(
    "patients",
    "subject_id:id gender:text? dob:time? dod:time? anchor_age:number? anchor_year:number?",
)
_ATTRIBUTES = (
    "SELECT subject_id AS patient, coalesce(year(CASE WHEN isfinite(dob) THEN dob END), "
    "anchor_year - anchor_age) AS birth_year, gender AS sex, dod IS NOT NULL AS died "
    "FROM src.patients"
)
NEEDS = {
    "medication": (
        TableNeed.of(
            "prescriptions",
            "subject_id:key hadm_id:key starttime|startdate:time stoptime|enddate:time? drug:text",
        ),
    ),
    "lab": (
        TableNeed.of("labevents", "subject_id:key hadm_id:key itemid:id charttime:time flag:text"),
        TableNeed.of("d_labitems", "itemid:id label:text"),
    ),
    "diagnosis": (
        TableNeed.of(
            "diagnoses_icd", "subject_id:key hadm_id:key icd_code|icd9_code:icd icd_version:id?"
        ),
        TableNeed.of("d_icd_diagnoses", "icd_code|icd9_code:icd icd_version:id? long_title:text"),
    ),
    "procedure": (
        TableNeed.of(
            "procedures_icd",
            "subject_id:key hadm_id:key icd_code|icd9_code:icd icd_version:id? chartdate:time?",
        ),
        TableNeed.of("d_icd_procedures", "icd_code|icd9_code:icd icd_version:id? long_title:text"),
    ),
}


class Mimic:
    """MIMIC in its own file layout; the version is told from the columns."""

    name = "mimic"
    modes = tuple(NEEDS)
    divisions: tuple[str, ...] = ()
    options = ("infer_visit", "schema")

    def plan(self, bench: Workbench, path: str, settings: IngestSettings) -> ReadingPlan:
        """Open the tables that the modes need; the dictionaries may be missing."""
        tables = Tables(bench, origin_of(bench, path, settings.schema))
        described = _version(tables)
        tables.join_by_number([ADMISSIONS, *(NEEDS[mode][0] for mode in settings.rule.modes)])
        tables.open(ADMISSIONS, optional=not settings.infer_visit)
        tables.unique("admissions", "hadm_id")
        attributes = _ATTRIBUTES if tables.open(PATIENTS, optional=True) else None
        extracts, warnings = [], []
        for mode in settings.rule.modes:
            events, *names = NEEDS[mode]
            tables.open(events)
            for dictionary in names:
                if not tables.open(dictionary, optional=True):
                    warnings.append(f"no table {dictionary.names[0]}: its codes have no labels")
            shown = tables.shown(events.names[0])
            columns = tables.columns(tables.opened[events.names[0]])
            ninth = "icd9_code" in columns and "icd_version" not in columns
            bound = {"version": "9" if ninth else None}
            extracts.append(Extract(mode, shown, sql_text(f"mimic_{mode}"), bound))
        inputs = tables.origin.fingerprints(list(tables.opened.values()))
        return ReadingPlan(
            described,
            tuple(extracts),
            inputs,
            warnings=(*warnings, *tables.notes),
            names_drugs=True,
            attributes=attributes,
            key=tables.key,
        )


def _version(tables: Tables) -> str:
    """MIMIC-III says icd9_code and startdate, MIMIC-IV says icd_code and starttime."""
    for name, third, fourth in (
        ("prescriptions", "startdate", "starttime"),
        ("diagnoses_icd", "icd9_code", "icd_code"),
        ("labevents", "row_id", "labevent_id"),
    ):
        if tables.has(name):
            columns = tables.columns(name)
            if third in columns:
                return "MIMIC-III"
            if fourth in columns:
                return "MIMIC-IV"
    raise UnknownRecords(
        "Neither MIMIC-III nor MIMIC-IV",
        where=tables.origin.title,
        why="found: " + (", ".join(sorted(tables.origin.names())[:12]) or "no tables"),
        fix="name the folder with PRESCRIPTIONS.csv.gz (III) or the one above hosp/ (IV)",
    )
