"""Codes rolled up into groups, with their names."""

import gzip

import pytest

from tripheno.errors import BadGrouping, NoSuchFile, SettingsError
from tripheno.records.mimic import Mimic
from tripheno.testing.small_tables import cells, run_ingest, write_tables
from tripheno.vocabulary.icd import ICDTitles, ccs, ccs_label, ccsr, ccsr_label, title
from tripheno.vocabulary.rollup import parse_rollup, read_grouping

MODES = ("medication", "diagnosis")


def test_both_versions_of_icd_meet_in_one_ccs_category():
    assert ccs(["ICD9CM:401.9", "ICD10CM:I10"]) == {"ICD9CM:401.9": "98", "ICD10CM:I10": "98"}
    assert ccs_label("98") == "Essential hypertension"


def test_both_versions_of_icd_meet_in_one_ccsr_category():
    assert set(ccsr(["ICD9CM:401.9", "ICD10CM:I10"]).values()) == {"CIR007"}
    assert ccsr_label("CIR007") == "circulation (CIR007)"
    assert ccsr_label("XXX000") is None


def test_codes_of_other_systems_and_unknown_codes_have_no_group():
    assert ccs(["LOINC:1-1", "ICD9CM:999999", "plain"]) == {}


def test_a_category_belongs_to_the_group_that_all_its_codes_share():
    assert ccs(["ICD9CM:486", "ICD9CM:428"]) == {"ICD9CM:486": "122", "ICD9CM:428": "108"}
    assert "ICD9CM:250" not in ccs(["ICD9CM:250"])  # diabetes with and without complications


def test_titles_of_both_versions_and_of_categories():
    assert title("ICD9CM:401.9") == "Unspecified essential hypertension"
    assert title("ICD10CM:E11.9") == "Type 2 diabetes mellitus without complications"
    assert title("ICD9CM:401") == "Unspecified essential hypertension and related"
    assert title("ICD9CM:427") == "Cardiac dysrhythmia, unspecified and related"
    assert title("ICD10CM:Q99.99") is None
    assert ICDTitles().titles(["ICD9CM:401.9", "50931"]) == {
        "ICD9CM:401.9": "Unspecified essential hypertension"
    }


@pytest.fixture
def ward(tmp_path):
    return write_tables(
        tmp_path / "ward",
        PRESCRIPTIONS="""
            subject_id,hadm_id,startdate,enddate,drug
            1,10,2150-01-01,,Aspirin
            """,
        DIAGNOSES_ICD="""
            row_id,subject_id,hadm_id,seq_num,icd9_code
            1,1,10,1,4019
            2,1,10,2,25000
            3,1,10,3,40291
            """,
        D_ICD_DIAGNOSES="row_id,icd9_code,long_title\n1,4019,Hypertension",
    )


def test_codes_without_a_group_are_dropped_and_counted(ward, tmp_path):
    path = tmp_path / "mine.csv"
    path.write_text("code,group,label\n401.9,BP,Blood pressure\n402.91,BP,Blood pressure\n")
    grouping = read_grouping(path, "diagnosis")
    site, result = run_ingest(Mimic(), ward, groupings=(grouping,))
    assert cells(site) == {("1", "aspirin", "BP"): 1}
    diagnoses = next(table for table in result.sites[0].tables if table.mode == "diagnosis")
    assert (diagnoses.used, diagnoses.dropped) == (2, {"no group": 1})
    assert result.sites[0].modes[1].top[0]["label"] == "Blood pressure"


def test_a_code_in_two_groups_counts_in_both_and_as_one_row(ward, tmp_path):
    path = tmp_path / "mine.csv"
    path.write_text("code,group\n4019,A\n4019,B\n4019,A\n")
    site, result = run_ingest(Mimic(), ward, groupings=(read_grouping(path, "diagnosis"),))
    assert {group for *_, group in cells(site)} == {"A", "B"}
    diagnoses = next(table for table in result.sites[0].tables if table.mode == "diagnosis")
    assert (diagnoses.read, diagnoses.used) == (3, 1)


def test_the_catalogues_headers_say_which_version_the_codes_are(tmp_path):
    path = tmp_path / "phecodes.csv.gz"
    path.write_bytes(gzip.compress(b"ICD9,PheCode,Phenotype\nE880.0,999,Fall\n"))
    grouping = read_grouping(path, "diagnosis")
    assert grouping.groups(["ICD9CM:E880.0"])["grouped"].to_pylist() == ["999"]
    assert grouping.groups(["ICD10CM:E88.00"]).num_rows == 0  # the same letters, another disease


def test_groupings_on_the_command_line(tmp_path):
    assert parse_rollup("ccs", MODES).name == "ccs"
    with pytest.raises(SettingsError, match="groups diagnoses"):
        parse_rollup("ccsr", ("medication", "lab"))
    with pytest.raises(SettingsError, match="not understood"):
        parse_rollup("phecodes", MODES)
    with pytest.raises(NoSuchFile, match="nowhere"):
        parse_rollup(f"diagnosis={tmp_path}/nowhere.csv", MODES)


@pytest.mark.parametrize("content", [b"a,b\n1,2\n", b"", b"code,group\n\xe9,1\n"])
def test_a_file_that_is_no_grouping_is_refused(tmp_path, content):
    (tmp_path / "x.csv").write_bytes(content)
    with pytest.raises(BadGrouping):
        read_grouping(tmp_path / "x.csv", "diagnosis")


def test_ahrqs_own_file_gives_its_own_names(tmp_path):
    path = tmp_path / "DXCCSR_v2024-1.csv"
    path.write_text(
        "'ICD-10-CM CODE','ICD-10-CM CODE DESCRIPTION','Default CCSR CATEGORY IP',"
        "'Default CCSR CATEGORY DESCRIPTION IP'\n"
        "'I10','Essential (primary) hypertension','CIR007','Essential hypertension'\n"
    )
    groups = read_grouping(path, "diagnosis").groups(["ICD10CM:I10"]).to_pylist()
    assert groups == [
        {"code": "ICD10CM:I10", "grouped": "CCSR:CIR007", "label": "Essential hypertension"}
    ]
