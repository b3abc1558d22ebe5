"""What a window is: the examples of docs/counting-windows.md, computed by hand."""

import pytest

from tripheno.errors import EmptyMode, SettingsError
from tripheno.records.events import CountingRule
from tripheno.records.fhir import FHIR
from tripheno.records.mimic import Mimic
from tripheno.records.source import IngestSettings
from tripheno.testing.small_tables import cells, run_ingest, write_tables

LABS = ("medication", "lab")


@pytest.fixture
def ward(tmp_path):
    """One patient, two admissions; aspirin twice and heparin, glucose four times and sodium."""
    return write_tables(
        tmp_path / "ward",
        PRESCRIPTIONS="""
            subject_id,hadm_id,startdate,enddate,drug
            1,10,2150-01-01 00:00:00,2150-01-03 00:00:00,Aspirin
            1,10,2150-01-02 00:00:00,2150-01-01 00:00:00,Heparin
            1,20,2150-02-01 00:00:00,,Aspirin
            """,
        LABEVENTS="""
            row_id,subject_id,hadm_id,itemid,charttime,flag
            1,1,10,50931,2150-01-01 06:00:00,abnormal
            2,1,10,50931,2150-01-02 08:00:00,abnormal
            3,1,,50931,2150-01-03 23:59:00,abnormal
            4,1,20,50931,2150-02-01 00:30:00,abnormal
            5,1,20,50983,2150-02-02 00:00:00,abnormal
            6,1,20,50983,2150-02-01 09:00:00,
            """,
        D_LABITEMS="itemid,label\n50931,Glucose\n50983,Sodium",
        ADMISSIONS="""
            subject_id,hadm_id,admittime,dischtime,edregtime
            1,10,2150-01-01 00:00:00,2150-01-04 12:00:00,
            1,20,2150-02-01 00:00:00,2150-02-03 00:00:00,
            """,
    )


def test_by_visit_a_cell_counts_the_visits_in_which_both_codes_occur(ward):
    site, result = run_ingest(Mimic(), ward, LABS)
    assert cells(site) == {
        ("1", "aspirin", "50931"): 2,
        ("1", "aspirin", "50983"): 1,
        ("1", "heparin", "50931"): 1,
    }
    assert result.sites[0].tables[0].dropped == {"no visit": 1, "not abnormal": 1}


def test_a_cap_bounds_the_count(ward):
    site, _ = run_ingest(Mimic(), ward, LABS, cap=1)
    assert set(cells(site).values()) == {1}


def test_by_person_everything_of_a_patient_meets_once(ward):
    site, _ = run_ingest(Mimic(), ward, LABS, "person")
    assert cells(site) == {
        ("1", drug, lab): 1 for drug in ("aspirin", "heparin") for lab in ("50931", "50983")
    }


def test_same_day_joins_by_patient_and_calendar_day_at_the_orders_start(ward):
    site, _ = run_ingest(Mimic(), ward, LABS, "same-day")
    assert cells(site) == {
        ("1", "aspirin", "50931"): 2,  # 1 January and 1 February
        ("1", "heparin", "50931"): 1,  # 2 January
    }


def test_over_the_interval_an_order_counts_on_every_day_it_covers(ward):
    site, result = run_ingest(Mimic(), ward, LABS, "same-day", anchor="interval")
    # aspirin covers 1, 2 and 3 January (glucose each day) and, without an end, 1 February;
    # heparin ends before it starts and is left out
    assert cells(site) == {("1", "aspirin", "50931"): 4}
    orders = next(table for table in result.sites[0].tables if table.mode == "medication")
    assert orders.dropped == {"ends before it starts": 1}


def test_sliding_windows_count_pairs_of_events(ward):
    site, _ = run_ingest(Mimic(), ward, LABS, "1d")
    # aspirin 1 Jan 00:00: glucose after 6 h (in), 32 h (out); aspirin 1 Feb 00:00: glucose after
    # 30 min (in), sodium after just 24 h (in); heparin 2 Jan 00:00: glucose 18 h before, 8 h after
    assert cells(site) == {
        ("1", "aspirin", "50931"): 2,
        ("1", "aspirin", "50983"): 1,
        ("1", "heparin", "50931"): 2,
    }


def test_a_narrower_sliding_window_counts_fewer_pairs(ward):
    site, _ = run_ingest(Mimic(), ward, LABS, "3h")
    assert cells(site) == {("1", "aspirin", "50931"): 1}  # 1 February, 30 minutes


def test_calendar_windows_of_a_week_begin_where_the_calendar_does(ward):
    site, _ = run_ingest(Mimic(), ward, LABS, "every-7d")
    # weeks run from Thursday to Wednesday: 1 January 2150 is a Thursday, so is 29 January
    assert cells(site) == {
        ("1", "aspirin", "50931"): 2,
        ("1", "aspirin", "50983"): 1,
        ("1", "heparin", "50931"): 1,
    }


def test_a_lab_without_an_admission_can_take_the_one_under_way(ward):
    _, result = run_ingest(Mimic(), ward, LABS, infer_visit=True)
    labs = next(table for table in result.sites[0].tables if table.mode == "lab")
    assert labs.visits == {"inferred": 1}
    assert labs.dropped == {"not abnormal": 1}


def test_a_record_without_a_visit_can_take_its_day_as_visit(ward):
    _, result = run_ingest(Mimic(), ward, LABS, without_visit="date")
    labs = next(table for table in result.sites[0].tables if table.mode == "lab")
    assert labs.visits == {"none, day used": 1}
    assert labs.used == 5


def test_records_without_any_time_cannot_be_placed_in_a_day(tmp_path, ward):
    write_tables(
        ward,
        DIAGNOSES_ICD="row_id,subject_id,hadm_id,seq_num,icd9_code\n1,1,10,1,4019",
        D_ICD_DIAGNOSES="row_id,icd9_code,long_title\n1,4019,Hypertension",
    )
    with pytest.raises(EmptyMode, match=r"1 rows: no time.*--window visit or person"):
        run_ingest(Mimic(), ward, ("medication", "diagnosis"), "same-day")


def test_an_interval_needs_calendar_windows():
    for window in ("visit", "person", "1d"):
        with pytest.raises(SettingsError, match="calendar windows"):
            IngestSettings(rule=CountingRule(LABS, window), anchor="interval")


RESOURCES = {
    "MedicationRequest": '{"resourceType":"MedicationRequest","status":"active",'
    '"subject":{"reference":"Patient/a"},"authoredOn":"2024-03-31T23:30:00-04:00",'
    '"medicationCodeableConcept":{"text":"Aspirin"}}',
    "Condition": '{"resourceType":"Condition","subject":{"reference":"Patient/a"},'
    '"onsetDateTime":"2024-03-31T08:00:00-04:00","code":{"text":"Angina"}}',
}


@pytest.fixture
def zoned(tmp_path):
    folder = tmp_path / "zoned"
    folder.mkdir()
    for name, line in RESOURCES.items():
        (folder / f"{name}.ndjson").write_text(line + "\n")
    return folder


def test_a_time_with_an_offset_keeps_the_day_the_ward_wrote(zoned):
    site, _ = run_ingest(FHIR(), zoned, window="same-day")
    assert cells(site) == {("a", "aspirin", "angina"): 1}


def test_with_the_hospitals_zone_offsets_are_converted_into_it(zoned):
    # 23:30 in New York is 05:30 of the next day in Berlin
    site, _ = run_ingest(FHIR(), zoned, window="7d", timezone="Europe/Berlin")
    assert cells(site) == {("a", "aspirin", "angina"): 1}
    from tripheno.errors import EmptyTensor

    site, _ = run_ingest(FHIR(), zoned, window="same-day", timezone="Europe/Berlin")
    with pytest.raises(EmptyTensor):
        cells(site)


def test_an_unknown_zone_is_refused():
    with pytest.raises(SettingsError, match="Mars/Phobos"):
        IngestSettings(timezone="Mars/Phobos")
