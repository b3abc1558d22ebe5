"""Every record source keeps the contract."""

import csv
import json
from dataclasses import replace
from datetime import timedelta

import duckdb

from tripheno.records.eicu import EICU
from tripheno.records.fhir import FHIR
from tripheno.records.flat import Flat
from tripheno.records.mimic import Mimic
from tripheno.records.omop import OMOP
from tripheno.testing.record_source_contract import BEGIN, RecordSourceContract


def write_csv(path, header, rows):
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(header)
        writer.writerows(rows)


class TestMimicThree(RecordSourceContract):
    source = Mimic()
    modes = ("medication", "lab")
    needed_table = "PRESCRIPTIONS"

    def write(self, folder, records):
        write_csv(
            folder / "PRESCRIPTIONS.csv",
            ["ROW_ID", "SUBJECT_ID", "HADM_ID", "STARTDATE", "ENDDATE", "DRUG"],
            [
                [n, r.patient, r.visit, r.time, r.time, f"Drug {r.code} "]
                for n, r in enumerate(records)
                if r.mode == "medication"
            ],
        )
        write_csv(
            folder / "LABEVENTS.csv",
            ["ROW_ID", "SUBJECT_ID", "HADM_ID", "ITEMID", "CHARTTIME", "FLAG"],
            [
                [n, r.patient, r.visit, 50_000 + r.code, r.time, "abnormal"]
                for n, r in enumerate(records)
                if r.mode == "lab"
            ],
        )
        write_csv(folder / "D_LABITEMS.csv", ["ITEMID", "LABEL"], [[50_000, "Glucose"]])

    def spelling(self, mode, code):
        return f"drug {code}" if mode == "medication" else str(50_000 + code)


class TestMimicFour(TestMimicThree):
    needed_table = "prescriptions"

    def write(self, folder, records):
        (folder / "hosp").mkdir()
        write_csv(
            folder / "hosp" / "prescriptions.csv",
            ["subject_id", "hadm_id", "starttime", "stoptime", "drug"],
            [
                [r.patient, r.visit, r.time, r.time, f"Drug {r.code}"]
                for r in records
                if r.mode == "medication"
            ],
        )
        write_csv(
            folder / "hosp" / "labevents.csv",
            ["labevent_id", "subject_id", "hadm_id", "itemid", "charttime", "flag"],
            [
                [n, r.patient, r.visit, 50_000 + r.code, r.time, "abnormal"]
                for n, r in enumerate(records)
                if r.mode == "lab"
            ],
        )


class TestEICU(RecordSourceContract):
    source = EICU()
    needed_table = "medication"

    def write(self, folder, records):
        visits = {r.visit: r for r in records}
        write_csv(
            folder / "patient.csv",
            ["patientunitstayid", "patienthealthsystemstayid", "uniquepid", "hospitalid",
             "hospitaladmittime24", "hospitaladmitoffset"],
            [[v, v, r.patient, 1, "00:00:00", 0] for v, r in visits.items()],
        )  # fmt: skip

        def minutes(r):
            begins = BEGIN + timedelta(days=10 * (r.visit % 10))
            return int((r.time - begins).total_seconds() // 60)

        write_csv(
            folder / "medication.csv",
            ["patientunitstayid", "drugstartoffset", "drugstopoffset", "drugordercancelled",
             "drugname", "drughiclseqno"],
            [
                [r.visit, minutes(r), minutes(r), "No", "X", 1000 + r.code]
                for r in records
                if r.mode == "medication"
            ],
        )  # fmt: skip
        write_csv(
            folder / "diagnosis.csv",
            ["patientunitstayid", "diagnosisoffset", "diagnosisstring", "icd9code"],
            [
                [r.visit, minutes(r), "a|b", f"40{r.code}.9, I10"]
                for r in records
                if r.mode == "diagnosis"
            ],
        )

    def spelling(self, mode, code):
        return str(1000 + code) if mode == "medication" else f"ICD9CM:40{code}.9"


class TestOMOPFolder(RecordSourceContract):
    source = OMOP()
    needed_table = "drug_exposure"

    def write(self, folder, records):
        visits = {(r.visit, r.patient) for r in records}
        write_csv(folder / "visit_occurrence.csv", ["visit_occurrence_id", "person_id"], visits)
        write_csv(
            folder / "drug_exposure.csv",
            ["person_id", "drug_concept_id", "drug_exposure_start_date",
             "drug_exposure_start_datetime", "visit_occurrence_id"],
            [
                [r.patient, 100 + r.code, r.time.date(), r.time, f"{r.visit}.0"]
                for r in records
                if r.mode == "medication"
            ],
        )  # fmt: skip
        write_csv(
            folder / "condition_occurrence.csv",
            ["person_id", "condition_concept_id", "condition_start_date",
             "condition_start_datetime", "visit_occurrence_id"],
            [
                [r.patient, 200 + r.code, r.time.date(), r.time, r.visit]
                for r in records
                if r.mode == "diagnosis"
            ],
        )  # fmt: skip

    def spelling(self, mode, code):
        return str((100 if mode == "medication" else 200) + code)


class TestOMOPParquet(TestOMOPFolder):
    def write(self, folder, records):
        super().write(folder, records)
        db = duckdb.connect()
        for path in list(folder.glob("*.csv")):
            db.execute(f"COPY (FROM '{path}') TO '{path.with_suffix('.parquet')}'")
            path.unlink()
        db.close()


class TestFHIR(RecordSourceContract):
    source = FHIR()
    needed_table = "MedicationRequest"

    def write(self, folder, records):
        def resource(r):
            common = {
                "subject": {"reference": f"Patient/{r.patient}"},
                "encounter": {"reference": f"Encounter/{r.visit}"},
            }
            if r.mode == "medication":
                coding = {
                    "system": "http://www.nlm.nih.gov/research/umls/rxnorm",
                    "code": str(r.code),
                }
                return {
                    "resourceType": "MedicationRequest",
                    "status": "completed",
                    "authoredOn": r.time.isoformat(),
                    "medicationCodeableConcept": {"coding": [coding]},
                    **common,
                }
            coding = {"system": "http://hl7.org/fhir/sid/icd-10-cm", "code": f"I1{r.code}.0"}
            return {
                "resourceType": "Condition",
                "onsetDateTime": r.time.isoformat(),
                "code": {"coding": [coding]},
                **common,
            }

        resources = [resource(r) for r in records]
        resources += [
            {"resourceType": "Encounter", "id": str(v), "status": "finished"}
            for v in {r.visit for r in records}
        ]
        if not any(r["resourceType"] == "Condition" for r in resources):
            resources.append({"resourceType": "Condition"})
        by_type = {}
        for r in resources:
            by_type.setdefault(r["resourceType"], []).append(json.dumps(r))
        for kind, lines in by_type.items():
            (folder / f"{kind}.ndjson").write_text("\n".join(lines) + "\n")

    def spelling(self, mode, code):
        return f"RxNorm:{code}" if mode == "medication" else f"ICD10CM:I1{code}.0"


class TestFlat(RecordSourceContract):
    source = Flat()
    needed_table = "orders"

    def write(self, folder, records):
        for mode, name in (("medication", "orders"), ("diagnosis", "problems")):
            write_csv(
                folder / f"{name}.csv",
                ["who", "stay", "moment", "what"],
                [[r.patient, r.visit, r.time, f"W{r.code}"] for r in records if r.mode == mode],
            )
        (folder / "site.toml").write_text(
            "".join(
                f'[[source.tables]]\nfile = "{name}.csv"\nmode = "{mode}"\npatient = "who"\n'
                'visit = "stay"\ntime = "moment"\ncode = "what"\n'
                for mode, name in (("medication", "orders"), ("diagnosis", "problems"))
            )
        )

    def settings(self, folder, window="visit", **more):
        return replace(super().settings(folder, window, **more), mapping=folder / "site.toml")

    def spelling(self, mode, code):
        return f"w{code}" if mode == "medication" else f"W{code}"


del RecordSourceContract  # pytest would collect the contract itself
