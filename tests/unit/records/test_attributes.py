"""Birth year, sex and death stay in local/, one row per patient."""

import stat

import pyarrow.parquet as pq

from tripheno.records.mimic import Mimic
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
        {"patient": 0, "birth_year": 2094, "sex": "female", "died": True}
    ]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert "2094" not in (site / "coverage.json").read_text()
