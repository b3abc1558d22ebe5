"""eICU: the intensive care stays of many hospitals in one set of tables."""

from __future__ import annotations

from pathlib import Path

from tripheno.records.duck import Workbench, sql_text
from tripheno.records.origins import origin_of
from tripheno.records.ranges import load_ranges
from tripheno.records.source import Extract, IngestSettings, ReadingPlan
from tripheno.records.tables import TableNeed, Tables

PATIENT = TableNeed.of(
    "patient",
    "patientunitstayid:id patienthealthsystemstayid:id uniquepid:id hospitalid:id "
    "hospitaladmittime24:text? hospitaladmitoffset:number?",
)
ATTRIBUTES = TableNeed.of(
    "people|patient", "uniquepid:id gender:text? age:text? hospitaldischargestatus:text?"
)
_ATTRIBUTES = (  # eICU has ages at admission, no years: de-identified stays have no calendar
    "SELECT uniquepid AS patient, NULL::INTEGER AS birth_year, "
    "CASE WHEN age LIKE '>%' THEN 90 ELSE try_cast(age AS INTEGER) END AS age, gender AS sex, "
    "lower(hospitaldischargestatus) = 'expired' AS died FROM src.people"
)
BROUGHT = TableNeed.of("admissiondrug", "drugname:text drughiclseqno:id")  # for its names alone
HOSPITAL = TableNeed.of("hospital", "hospitalid:id region:text?")
NEEDS = {
    "medication": TableNeed.of(
        "medication",
        "patientunitstayid:id drugstartoffset:offset drugstopoffset:offset? "
        "drugordercancelled:text? drugname:text drughiclseqno:id",
    ),
    "diagnosis": TableNeed.of(
        "diagnosis",
        "patientunitstayid:id diagnosisoffset:offset diagnosisstring:text icd9code:icd",
    ),
    "lab": TableNeed.of(
        "lab|lab_raw_subset",
        "patientunitstayid:id labresultoffset:offset labname:text labresult:number",
    ),
}


class EICU:
    """The eICU Collaborative Research Database: a unit stay is a visit, ``uniquepid`` a patient."""

    name = "eicu"
    modes = tuple(NEEDS)
    divisions = ("hospitalid", "region")
    options = ("reference_ranges", "schema")

    def plan(self, bench: Workbench, path: str, settings: IngestSettings) -> ReadingPlan:
        """Open the tables; offsets from admission become times that never meet across stays."""
        tables = Tables(bench, origin_of(bench, path, settings.schema))
        tables.open(PATIENT)
        tables.open(HOSPITAL, optional=settings.by != "region")
        tables.open(ATTRIBUTES)
        tables.unique("patient", "patientunitstayid")
        tables.unique("hospital", "hospitalid")
        bench.run(sql_text("eicu_stays"))
        if settings.by == "region":
            tables.note(*_without_region(bench))
        ranges = load_ranges(bench, settings.reference_ranges, Path(path))
        extracts = []
        for mode in settings.rule.modes:
            tables.open(NEEDS[mode])
            if mode == "medication":
                tables.open(BROUGHT, optional=True)
            if mode == "medication" and "drugordercancelled" not in tables.columns("medication"):
                tables.note("medication: no column drugordercancelled: cancelled orders count too")
            extracts.append(Extract(mode, tables.shown(mode), sql_text(f"eicu_{mode}")))
        inputs = tables.origin.fingerprints(list(tables.opened.values()))
        facts = {"reference_ranges": ranges.name if ranges else None}
        return ReadingPlan(
            "eICU-CRD",
            tuple(extracts),
            inputs,
            facts,
            tuple(tables.notes),
            names_drugs=True,
            attributes=_ATTRIBUTES,
        )


def _without_region(bench: Workbench) -> list[str]:
    """What is said of hospitals whose region nobody wrote down."""
    ((count,),) = bench.rows(
        "SELECT count(DISTINCT hospitalid) FROM stays WHERE region = 'region-not-recorded'"
    )
    if not count:
        return []
    return [
        f"hospital: of {count} hospitals the region is not recorded: their patients are together "
        "in region-not-recorded, which is no region"
    ]
