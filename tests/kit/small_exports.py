# ruff: noqa: E501 - rows of tables read best on one line
"""Small exports of every source, for tests that change them."""

import csv
import io
import json

import pyarrow as pa
import pyarrow.parquet as pq

from tripheno.records.eicu import EICU
from tripheno.records.flat import Flat
from tripheno.records.mimic import Mimic
from tripheno.records.omop import OMOP
from tripheno.testing.small_tables import cells, run_ingest

ORDERS, DX = "PRESCRIPTIONS.csv", "DIAGNOSES_ICD.csv"
MIMIC = {
    "PRESCRIPTIONS.csv": [
        ["subject_id", "hadm_id", "startdate", "enddate", "drug"],
        ["7001", "10", "2150-01-01", "2150-01-02", "Aspirin"],
        ["7001", "10", "2150-01-01", "2150-01-02", "Heparin"],
        ["7002", "20", "2150-02-03", "2150-02-05", "Metformin"],
        ["7003", "30", "2150-03-04", "2150-03-05", "Aspirin"],
    ],
    "DIAGNOSES_ICD.csv": [
        ["subject_id", "hadm_id", "icd9_code"],
        ["7001", "10", "4019"],
        ["7001", "10", "00845"],
        ["7002", "20", "25000"],
        ["7003", "30", "V1582"],
    ],
}
EICU_TABLES = {
    "patient.csv": [
        ["patientunitstayid", "patienthealthsystemstayid", "uniquepid", "hospitalid"],
        ["70", "700", "002-7", "73"],
        ["80", "800", "002-8", "73"],
    ],
    "medication.csv": [
        ["patientunitstayid", "drugstartoffset", "drugname", "drughiclseqno", "drugordercancelled"],
        ["70", "10", "METFORMIN", "4763", "No"],
        ["70", "20", "ASPIRIN", "1820", "Yes"],
        ["80", "20", "ASPIRIN", "1820", "No"],
    ],
    "diagnosis.csv": [
        ["patientunitstayid", "diagnosisoffset", "diagnosisstring", "icd9code"],
        ["70", "15", "endocrine", "250.00, E11.9"],
        ["80", "30", "cardiovascular", "401.9, I10"],
    ],
}
OMOP_TABLES = {
    "drug_exposure.csv": [
        ["person_id", "drug_concept_id", "drug_exposure_start_date", "visit_occurrence_id"],
        ["1", "1112807", "2020-01-01", "11"],
        ["1", "1503297", "2020-01-01", "11"],
        ["2", "1112807", "2020-02-01", "21"],
    ],
    "condition_occurrence.csv": [
        ["person_id", "condition_concept_id", "condition_start_date", "visit_occurrence_id"],
        ["1", "320128", "2020-01-02", "11"],
        ["2", "201826", "2020-02-02", "21"],
    ],
    "visit_occurrence.csv": [["visit_occurrence_id", "person_id"], ["11", "1"], ["21", "2"]],
}
FLAT_TABLES = {
    "orders.csv": [
        ["who", "stay", "drug"], ["001", "a1", "Aspirin"], ["1", "b1", "Heparin"], ["2", "c1", "0071"],
    ],
    "problems.csv": [
        ["who", "stay", "code"], ["001", "a1", "008.45"], ["1", "b1", "250.00"], ["2", "c1", "401.9"],
    ],
}  # fmt: skip
MAPPING = "".join(
    f'[[source.tables]]\nfile = "{name}.csv"\nmode = "{mode}"\npatient = "who"\nvisit = "stay"\n{more}'
    for name, mode, more in (
        ("orders", "medication", 'code = "drug"\n'),
        ("problems", "diagnosis", 'code = "code"\nsystem = "ICD9CM"\n'),
    )
)
SOURCES = {
    "mimic": (Mimic(), MIMIC),
    "eicu": (EICU(), EICU_TABLES),
    "omop": (OMOP(), OMOP_TABLES),
    "flat": (Flat(), FLAT_TABLES),
}


def written(rows, delimiter=",", quoting=csv.QUOTE_MINIMAL, end="\n"):
    text = io.StringIO()
    csv.writer(text, delimiter=delimiter, quoting=quoting, lineterminator=end).writerows(rows)
    return text.getvalue().encode()


def put(folder, tables, spell=written):
    folder.mkdir(parents=True, exist_ok=True)
    for name, rows in tables.items():
        (folder / name).write_bytes(spell(rows))


def run(source, folder, **more):
    """Ingest one of the exports above; `run_ingest` checks that every row is accounted for."""
    reader, _ = SOURCES[source]
    if source == "flat":
        mapping = folder.with_name("site.toml")
        mapping.write_text(MAPPING)
        more["mapping"] = mapping
    site, result = run_ingest(reader, folder, **more)
    return cells(site), result.sites[0]


RXNORM, ICD10 = "http://www.nlm.nih.gov/research/umls/rxnorm", "http://hl7.org/fhir/sid/icd-10-cm"


def resources():
    seen = {"subject": {"reference": "Patient/7"}, "encounter": {"reference": "Encounter/70"}}
    drug = {"coding": [{"system": RXNORM, "code": "6809", "display": "metformin"}]}
    return [
        {"resourceType": "MedicationRequest", "id": "m", "status": "completed",
         "medicationCodeableConcept": drug, **seen},
        {"resourceType": "MedicationAdministration", "id": "a", "status": "completed",
         "medicationCodeableConcept": {"coding": [{"system": RXNORM, "code": "1191"}]},
         "subject": seen["subject"], "context": {"reference": "Encounter/71"}},
        {"resourceType": "Condition", "id": "c", "code": {"coding": [{"system": ICD10, "code": "E11.9"}]},
         **seen},
        {"resourceType": "Encounter", "id": "70", "status": "finished"},
        {"resourceType": "Encounter", "id": "71", "status": "finished",
         "partOf": {"reference": "Encounter/70/_history/2"}},
    ]  # fmt: skip


def bundle(items):
    return {"resourceType": "Bundle", "entry": [{"resource": item} for item in items]}


def as_lines(items):
    return "\n".join(map(json.dumps, items)) + "\n"


STAY = [
    (7, "2020-01-01", "HOSPITAL_ADMISSION//X", None), (7, "2020-01-02", "MEDICATION//START//Aspirin", None),
    (7, "2020-01-03", "DIAGNOSIS//ICD//10//I10", None), (7, "2020-01-03", "HOSPITAL_DISCHARGE//HOME", None),
    (7, "2020-06-01", "MEDICATION//START//Heparin", None), (8, "2020-01-01", "LAB//1", 3.0),
]  # fmt: skip


def meds_shard(path, rows, **extra):
    path.parent.mkdir(parents=True, exist_ok=True)
    subject, time, code, value = map(list, zip(*rows, strict=True))
    moments = pa.array(time).cast(pa.timestamp("us"))
    table = pa.table({
        "subject_id": pa.array(subject, pa.int64()), "time": moments, "code": code,
        "numeric_value": pa.array(value, pa.float32()), **extra,
    })  # fmt: skip
    pq.write_table(table, path)
