"""The account: what was read, used and dropped, in words and as JSON."""

import json

import pytest
from typer.testing import CliRunner

from tripheno.cli.main import app
from tripheno.testing.small_tables import write_tables


@pytest.fixture
def ward(tmp_path):
    return write_tables(
        tmp_path / "ward",
        PRESCRIPTIONS="""
            subject_id,hadm_id,startdate,enddate,drug
            1,10,2150-01-01,,Aspirin
            1,10,2150-01-01,,Aspirin
            2,,2150-01-01,,Heparin
            """,
        DIAGNOSES_ICD="""
            row_id,subject_id,hadm_id,seq_num,icd9_code
            1,1,10,1,4019
            2,1,10,2,
            """,
    )


def run(*words):
    return CliRunner().invoke(app, ["ingest", *(str(word) for word in words)])


def test_the_json_has_tables_modes_and_the_tensor(ward, tmp_path):
    result = run("mimic", ward, "--out", tmp_path / "site", "--format", "json")
    report = json.loads(result.stdout)
    assert result.exit_code == 0
    assert report["tensor"] == {"shape": [1, 1, 1], "nonzeros": 1, "density": 1.0}
    orders = next(table for table in report["tables"] if table["mode"] == "medication")
    assert orders == {
        "table": "PRESCRIPTIONS.csv", "mode": "medication", "read": 3, "used": 2,
        "dropped": {"no visit": 1}, "visits": {"none": 1}, "rules": {}, "times": {}, "further": {},
        "share_without_visit": 0.3333, "share_unmapped": 0.0,
    }  # fmt: skip
    assert report["modes"]["medication"] == {
        "events": 1, "repeated": 1, "patients": 1, "codes": 1, "unnamed": 0,
        "top": [{"code": "aspirin", "label": "aspirin", "patients": 1}],
    }  # fmt: skip
    assert report["rule"] == {
        "modes": ["medication", "diagnosis"], "window": "visit", "cap": None, "anchor": "start",
    }  # fmt: skip
    assert set(report["provenance"]["inputs"]) == {"DIAGNOSES_ICD.csv", "PRESCRIPTIONS.csv"}


def test_codes_without_a_label_in_the_tables_get_their_icd_title(ward, tmp_path):
    report = json.loads(run("mimic", ward, "--out", tmp_path / "site", "--format", "json").stdout)
    top = report["modes"]["diagnosis"]["top"][0]
    assert top["label"] == "Unspecified essential hypertension"


def test_the_text_names_every_reason_and_the_tensor(ward, tmp_path):
    text = run("mimic", ward, "--out", tmp_path / "site", "--cap", 3).stdout
    for words in (
        "MIMIC-III, medication × diagnosis by visit, counts capped at 3",
        "PRESCRIPTIONS.csv → medication: 3 rows read, 2 used",
        "dropped 1: no visit",
        "without a visit 33.3%: 1 none",
        "unmapped codes 50.0%",
        "1 repetitions left out",
        "warning: no table d_icd_diagnoses",
        "tensor 1 × 1 × 1, 1 nonzeros, density 100.000%",
    ):
        assert words in text


def test_progress_goes_to_stderr_and_the_result_to_stdout(ward, tmp_path):
    result = run("mimic", ward, "--out", tmp_path / "site", "--format", "json")
    assert "reading PRESCRIPTIONS.csv → medication" in result.stderr
    assert "reading" not in result.stdout


def test_an_empty_mode_ends_with_exit_three_and_its_reasons(ward, tmp_path):
    result = run("mimic", ward, "--out", tmp_path / "site", "--window", "same-day")
    assert result.exit_code == 3
    assert "TRIP-E313 The mode 'diagnosis' is empty" in result.stderr
    assert "1 rows: no time" in result.stderr
    assert not (tmp_path / "site" / "events.parquet").exists()


def test_a_tensor_without_a_cell_ends_with_exit_three_and_leaves_no_events(ward, tmp_path):
    (ward / "DIAGNOSES_ICD.csv").write_text("subject_id,hadm_id,icd9_code\n3,30,4019\n")
    result = run("mimic", ward, "--out", tmp_path / "site")
    assert result.exit_code == 3
    assert "TRIP-E304" in result.stderr
    assert not (tmp_path / "site" / "events.parquet").exists()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--window", "fortnight"), "unknown window"),
        (("--modes", "medication"), "two or more"),
        (("--modes", "medication,horoscope"), "no mode 'horoscope'"),
        (("--cap", "0"), "cap must be 1 or more"),
        (("--by", "region"), "can be split by nothing"),
        (("--anchor", "interval"), "calendar windows"),
        (("--schema", "cdm"), "a schema belongs to a database"),
        (("--memory", "lots"), "not an amount of memory"),
        (("--strip-strength", "--drug-names", "raw"), "keep their strength"),
    ],
)
def test_options_that_cannot_be_used_end_with_exit_two(ward, tmp_path, words, told):
    result = run("mimic", ward, "--out", tmp_path / "site", *words)
    assert result.exit_code == 2
    assert told in result.stderr
