"""eICU: the intensive care stays of many hospitals in one set of tables."""

from __future__ import annotations

from pathlib import Path

from tripheno.records.duck import Workbench, sql_text
from tripheno.records.origins import origin_of
from tripheno.records.ranges import load_ranges
from tripheno.records.source import Extract, IngestSettings, Plan
from tripheno.records.tables import TableNeed, Tables

PATIENT = TableNeed.of(
    "patient",
    "patientunitstayid:id patienthealthsystemstayid:id uniquepid:id hospitalid:id "
    "hospitaladmittime24:text? hospitaladmitoffset:number?",
)
ATTRIBUTES = TableNeed.of(
    "people|patient", "uniquepid:id gender:text? hospitaldischargestatus:text?"
)
_ATTRIBUTES = (  # eICU has ages at admission, no years: de-identified stays have no calendar
    "SELECT uniquepid AS patient, NULL::INTEGER AS birth_year, gender AS sex, "
    "lower(hospitaldischargestatus) = 'expired' AS died FROM src.people"
)
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

    def plan(self, bench: Workbench, path: str, settings: IngestSettings) -> Plan:
        """Open the tables; offsets from admission become times that never meet across stays."""
        tables = Tables(bench, origin_of(bench, path, settings.schema))
        tables.open(PATIENT)
        tables.open(HOSPITAL, optional=settings.by != "region")
        tables.open(ATTRIBUTES)
        tables.unique("patient", "patientunitstayid")
        tables.unique("hospital", "hospitalid")
        bench.run(sql_text("eicu_stays"))
        ranges = load_ranges(bench, settings.reference_ranges, Path(path))
        extracts = []
        for mode in settings.rule.modes:
            tables.open(NEEDS[mode])
            extracts.append(Extract(mode, tables.shown(mode), sql_text(f"eicu_{mode}")))
        inputs = tables.origin.fingerprints(list(tables.opened.values()))
        facts = {"reference_ranges": ranges.name if ranges else None}
        return Plan(
            "eICU-CRD",
            tuple(extracts),
            inputs,
            facts,
            tuple(tables.notes),
            names_drugs=True,
            attributes=_ATTRIBUTES,
        )
