"""Birth year, sex and death stay in local/, one row per patient."""

import stat

import pyarrow.parquet as pq

from tripheno.records.eicu import EICU
from tripheno.records.mimic import Mimic
from tripheno.records.traits import TRAITS, read_traits
from tripheno.testing.small_tables import run_ingest, write_tables


def test_attributes_are_kept_at_home_and_nowhere_else(tmp_path):
    folder = write_tables(
        tmp_path / "ward",
        PRESCRIPTIONS="subject_id,hadm_id,startdate,drug\n7,70,2150-01-01,Aspirin",
        DIAGNOSES_ICD="subject_id,hadm_id,icd9_code\n7,70,4019",
        PATIENTS="subject_id,gender,dob,dod\n7,F,2094-03-05,2165-08-12\n8,M,2090-01-01,",
    )
    site, _ = run_ingest(Mimic(), folder)
    path = site / "local" / "attributes.parquet"
    assert pq.read_table(path).to_pylist() == [
        {"patient": 0, "birth_year": 2094, "age": None, "sex": "female", "died": True}
    ]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert "2094" not in (site / "coverage.json").read_text()


def test_ages_at_admission_are_kept_where_a_source_has_no_year_of_birth(tmp_path):
    folder = write_tables(
        tmp_path / "eicu",
        patient="patientunitstayid,patienthealthsystemstayid,uniquepid,hospitalid,age,gender\n"
        "1,10,ann,7,> 89,Female\n2,20,bob,7,64,Male\n3,30,cem,7,,Male",
        medication="patientunitstayid,drugstartoffset,drugstopoffset,drugordercancelled,drugname,"
        "drughiclseqno\n1,1,2,No,aspirin,1\n2,1,2,No,aspirin,1\n3,1,2,No,aspirin,1",
        diagnosis="patientunitstayid,diagnosisoffset,diagnosisstring,icd9code\n"
        "1,3,heart,401.9\n2,3,heart,401.9\n3,3,heart,401.9",
    )
    site, _ = run_ingest(EICU(), folder)
    kept = pq.read_table(site / "local" / "attributes.parquet")
    assert kept["age"].to_pylist() == [90, 64, None]
    ages = [TRAITS["age"][row[0]] for row in read_traits(site, 3)]
    assert ages == ["80 and over", "40–64", "not known"]
