"""eICU: many hospitals in one set of tables, drugs by HICL, no dates and no flags."""

import pytest

from tripheno.errors import EmptyMode, SettingsError
from tripheno.records.eicu import EICU
from tripheno.records.events import read_events
from tripheno.testing.small_tables import cells, run_ingest, write_tables


@pytest.fixture
def units(tmp_path):
    return write_tables(
        tmp_path / "eicu",
        patient="""
            patientunitstayid,patienthealthsystemstayid,uniquepid,hospitalid,hospitaladmittime24,hospitaladmitoffset
            1,100,ann,7,22:00:00,-60
            2,100,ann,7,22:00:00,-1500
            3,300,ann,8,08:00:00,0
            4,400,bob,8,08:00:00,0
            """,
        hospital="hospitalid,numbedscategory,region\n7,<100,West\n8,<100,",
        medication="""
            patientunitstayid,drugstartoffset,drugstopoffset,drugordercancelled,drugname,drughiclseqno
            1,10,20,No,ASPIRIN 81 MG,1820
            2,10,20,Yes,HEPARIN,2810
            3,10,20,No,aspirin,1820
            3,10,20,No,mystery,
            4,10,20,No,aspirin,1820
            5,10,20,No,aspirin,1820
            """,
        diagnosis="""
            patientunitstayid,diagnosisoffset,diagnosisstring,icd9code
            1,30,cardiovascular|hypertension,"401.9, I10"
            3,2000,cardiovascular|hypertension,"401.9, I10"
            4,30,renal|failure,"584.9, N17.9"
            """,
        lab="""
            labid,patientunitstayid,labresultoffset,labtypeid,labname,labresult,labresulttext
            1,1,15,1,Glucose,300,300
            2,1,15,1,Glucose,100,100
            3,1,15,1,BUN,,canceled
            4,4,15,1,exotic,3,3
            """,
    )


def table_of(result, mode):
    return next(table for table in result.sites[0].tables if table.mode == mode)


def test_a_unit_stay_is_a_visit_and_stays_without_a_patient_are_counted(units):
    site, result = run_ingest(EICU(), units)
    assert cells(site) == {
        ("ann", "1820", "ICD9CM:401.9"): 2,
        ("bob", "1820", "ICD9CM:584.9"): 1,
    }
    assert table_of(result, "medication").dropped == {
        "cancelled order": 1, "no HICL code": 1, "stay not in patient table": 1,
    }  # fmt: skip


def test_the_name_is_the_code_where_hicl_is_missing_and_raw_names_are_asked_for(units):
    site, _ = run_ingest(EICU(), units, drug_names="raw")
    assert ("ann", "mystery", "ICD9CM:401.9") in cells(site)


def test_the_drugs_name_is_its_label(units):
    site, _ = run_ingest(EICU(), units)
    rows = read_events(site / "events.parquet").to_pylist()
    assert {row["label"] for row in rows if row["code"] == "1820"} == {"aspirin"}


def test_times_of_one_hospital_stay_share_a_clock_and_stays_never_meet(units):
    site, _ = run_ingest(EICU(), units, window="1d")
    # stay 1: drug and diagnosis 20 minutes apart; stay 3: 1,990 minutes apart; bob: 20 minutes
    assert cells(site) == {
        ("ann", "1820", "ICD9CM:401.9"): 1,
        ("bob", "1820", "ICD9CM:584.9"): 1,
    }
    times = read_events(site / "events.parquet")["time"].to_pylist()
    assert min(times).isoformat() == "2000-01-01T08:10:00"  # bob: admitted at 8, drug after 10 min
    assert {time.year for time in times} == {2000, 2010}


def test_one_folder_per_region_and_a_patient_of_two_hospitals_is_two_local_patients(units):
    site, result = run_ingest(EICU(), units, by="region")
    assert cells(site / "West") == {("ann", "1820", "ICD9CM:401.9"): 1}
    assert cells(site / "region-not-recorded") == {
        ("ann", "1820", "ICD9CM:401.9"): 1,
        ("bob", "1820", "ICD9CM:584.9"): 1,
    }
    assert [coverage.site for coverage in result.sites] == ["West", "region-not-recorded"]
    assert "of 1 hospitals the region is not recorded" in result.to_text()
    (lost,) = result.unassigned
    assert (lost.read, lost.dropped) == (1, {"stay not in patient table": 1})
    assert "1 rows of medication.csv belong to no region" in result.to_text()


def test_a_hospital_without_a_mode_is_left_out_and_named(units):
    text = (units / "diagnosis.csv").read_text().splitlines()
    (units / "diagnosis.csv").write_text("\n".join(text[:2]) + "\n")
    site, result = run_ingest(EICU(), units, by="hospitalid")
    assert result.skipped == {"8": "The mode 'diagnosis' is empty"}
    assert not (site / "8").exists()
    assert "left out 8" in result.to_text()


def test_results_are_judged_by_the_sites_ranges(units):
    (units / "reference_ranges.csv").write_text("lab,low,high\nglucose,70,110\nbun,7,20\n")
    site, result = run_ingest(EICU(), units, ("medication", "lab"))
    assert cells(site) == {("ann", "1820", "glucose"): 1}
    assert table_of(result, "lab").dropped == {
        "no number": 1, "no rule for abnormal": 1, "not abnormal": 1,
    }  # fmt: skip


def test_without_ranges_the_lab_mode_is_empty_and_the_way_out_is_named(units):
    with pytest.raises(EmptyMode, match="--reference-ranges"):
        run_ingest(EICU(), units, ("medication", "lab"))


def test_only_its_own_divisions_are_offered(units):
    with pytest.raises(SettingsError, match="hospitalid or region"):
        run_ingest(EICU(), units, by="ward")
