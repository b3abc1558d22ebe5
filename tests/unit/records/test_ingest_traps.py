"""The known traps of real files, one test each."""

import codecs
import gzip
import os

import duckdb
import pytest

from tripheno.errors import EmptyMode, MissingColumn, MissingTable, NoSuchFile, UnreadableTable
from tripheno.records.eicu import EICU
from tripheno.records.events import read_events
from tripheno.records.flat import Flat
from tripheno.records.mimic import Mimic
from tripheno.records.omop import OMOP
from tripheno.testing.small_tables import cells, run_ingest, write_tables

LABS = ("medication", "lab")
ORDERS = """
    row_id,subject_id,hadm_id,startdate,enddate,drug
    1,777001,10,2150-01-01,2150-01-02,Aspirin
    """
RESULTS = """
    row_id,subject_id,hadm_id,itemid,charttime,value,flag
    1,777001,10,50931,2150-01-01 06:00:00,14.4.6,abnormal
    """


@pytest.fixture
def ward(tmp_path):
    return write_tables(
        tmp_path / "ward",
        PRESCRIPTIONS=ORDERS,
        LABEVENTS=RESULTS,
        D_LABITEMS="row_id,itemid,label\n1,50931,Glucose",
    )


def rewrite(path, change):
    path.write_bytes(change(path.read_bytes()))


def test_blanks_around_drug_names_do_not_make_two_drugs(ward):
    with (ward / "PRESCRIPTIONS.csv").open("a") as stream:
        stream.write("2,777001,10,2150-01-01,2150-01-02,ASPIRIN  \n")
    site, _ = run_ingest(Mimic(), ward, LABS)
    assert cells(site) == {("777001", "aspirin", "50931"): 1}
    site, _ = run_ingest(Mimic(), ward, LABS, drug_names="raw")
    assert {code for _, code, _ in cells(site)} == {"Aspirin", "ASPIRIN  "}


def test_a_result_that_is_no_number_still_counts_by_its_flag(ward):
    site, _ = run_ingest(Mimic(), ward, LABS)
    assert cells(site) == {("777001", "aspirin", "50931"): 1}


def test_rows_written_twice_count_once_and_are_counted(ward):
    rewrite(ward / "PRESCRIPTIONS.csv", lambda b: b + b.splitlines(keepends=True)[-1] * 4)
    site, result = run_ingest(Mimic(), ward, LABS, "1d")
    assert cells(site) == {("777001", "aspirin", "50931"): 1}
    assert result.sites[0].modes[0].repeated == 4


def test_two_codes_in_one_field_give_the_first_of_icd_nine(tmp_path):
    folder = write_tables(
        tmp_path / "eicu",
        patient="patientunitstayid,patienthealthsystemstayid,uniquepid,hospitalid\n1,1,p,9",
        medication="patientunitstayid,drugstartoffset,drugname,drughiclseqno\n1,5,ASA,1820",
        diagnosis="""
            patientunitstayid,diagnosisoffset,diagnosisstring,icd9code
            1,5,a|b,"401.9, I10"
            1,5,a|c,"J96.00, 518.81"
            1,5,a|d,E87.1
            1,5,a|e,"E980.2, 965.00, T40.60"
            1,5,a|f,
            """,
    )
    site, result = run_ingest(EICU(), folder)
    assert {dx for _, _, dx in cells(site)} == {
        "ICD9CM:401.9", "ICD9CM:518.81", "ICD10CM:E87.1", "ICD9CM:E980.2",
    }  # fmt: skip
    diagnoses = next(table for table in result.sites[0].tables if table.mode == "diagnosis")
    assert diagnoses.dropped == {"no code": 1}


def test_a_question_mark_is_missing(tmp_path):
    folder = write_tables(
        tmp_path / "flat",
        visits="""
            who,stay,diag_1,diag_2,metformin
            1,11,250.01,?,Steady
            2,?,?,?,Up
            """,
    )
    mapping = tmp_path / "site.toml"
    table = '[[source.tables]]\nfile="visits.csv"\npatient="who"\nvisit="stay"\n'
    mapping.write_text(
        table + 'mode="diagnosis"\ncode=["diag_1","diag_2"]\nsystem="ICD9CM"\n'
        + table + 'mode="medication"\nflags=["metformin"]\nabsent=["No"]\n'
    )  # fmt: skip
    site, result = run_ingest(Flat(), folder, mapping=mapping)
    assert cells(site) == {("1", "metformin", "ICD9CM:250.01"): 1}
    told = {table.mode: table.dropped for table in result.sites[0].tables}
    assert told == {"diagnosis": {"no code": 1}, "medication": {"no visit": 1}}


def test_a_byte_order_mark_and_windows_line_ends_are_read_over(ward):
    for path in ward.glob("*.csv"):
        rewrite(path, lambda b: codecs.BOM_UTF8 + b.replace(b"\n", b"\r\n"))
    site, _ = run_ingest(Mimic(), ward, LABS)
    assert cells(site) == {("777001", "aspirin", "50931"): 1}


@pytest.mark.parametrize("delimiter", [b";", b"\t", b"|"])
def test_other_common_delimiters_are_understood(ward, delimiter):
    for path in ward.glob("*.csv"):
        rewrite(path, lambda b: b.replace(b",", delimiter))
    site, _ = run_ingest(Mimic(), ward, LABS)
    assert cells(site) == {("777001", "aspirin", "50931"): 1}


def test_an_unknown_delimiter_is_named_as_the_likely_cause(ward):
    rewrite(ward / "LABEVENTS.csv", lambda b: b.replace(b",", b"^"))
    with pytest.raises(MissingColumn, match="another delimiter") as caught:
        run_ingest(Mimic(), ward, LABS)
    assert "777001" not in str(caught.value)


def test_bare_quotation_marks_in_tab_separated_vocabularies_are_text(tmp_path):
    folder = write_tables(
        tmp_path / "cdm",
        CONCEPT="concept_id\tconcept_name\tvocabulary_id\tconcept_class_id\tstandard_concept\n"
        '7\t"Red" spot of 3" size\tSNOMED\tDisorder\tS',
        DRUG_EXPOSURE="person_id,drug_concept_id,drug_exposure_start_date\n1,8,2020-01-01",
        CONDITION_OCCURRENCE="person_id,condition_concept_id,condition_start_date\n1,7,2020-01-01",
    )
    site, _ = run_ingest(OMOP(), folder, window="person")
    assert '"Red" spot of 3" size' in read_events(site / "events.parquet")["label"].to_pylist()


@pytest.mark.parametrize("kept", [0.6, 0.999])
def test_a_truncated_gzip_is_an_error_not_a_short_table(ward, kept):
    path = ward / "LABEVENTS.csv"
    lines = path.read_text().splitlines()
    noise = [lines[1].replace("14.4.6", str(hash(str(n)))) for n in range(20_000)]
    packed = gzip.compress("\n".join([lines[0], *noise]).encode())
    path.unlink()
    (ward / "LABEVENTS.csv.gz").write_bytes(packed[: int(len(packed) * kept)])
    with pytest.raises(UnreadableTable, match=r"LABEVENTS\.csv\.gz.*cut off") as caught:
        run_ingest(Mimic(), ward, LABS)
    assert "777001" not in str(caught.value)
    assert not (ward.with_name("ward-site") / "events.parquet").exists()


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"2,777001,10,50931,2150-01-01,x,abnormal,too,many\n", "more or fewer columns"),
        (b'2,777001,10,50931,2150-01-01,"never closed,abnormal\n', "never closed"),
        (b"2,777001,10,50931,2150-01-01,x,abnorm\xe9l\n", "not UTF-8"),
    ],
)
def test_a_damaged_line_is_named_by_number_and_never_shown(ward, line, why):
    rewrite(ward / "LABEVENTS.csv", lambda b: b + line)
    with pytest.raises(UnreadableTable, match=rf"LABEVENTS\.csv line 3.*{why}") as caught:
        run_ingest(Mimic(), ward, LABS)
    assert "777001" not in str(caught.value)
    assert "50931" not in str(caught.value)


def test_a_missing_column_is_named_with_what_was_found_instead(ward):
    rewrite(ward / "LABEVENTS.csv", lambda b: b.replace(b"itemid", b"item"))
    with pytest.raises(MissingColumn, match=r"no column 'itemid'.*LABEVENTS\.csv.*charttime"):
        run_ingest(Mimic(), ward, LABS)


def test_a_missing_table_is_named_with_what_was_found_instead(ward):
    (ward / "LABEVENTS.csv").unlink()
    with pytest.raises(
        MissingTable, match=r"'labevents'.*found instead: d_labitems, prescriptions"
    ):
        run_ingest(Mimic(), ward, LABS)


def test_a_missing_dictionary_costs_only_the_labels(ward):
    (ward / "D_LABITEMS.csv").unlink()
    site, result = run_ingest(Mimic(), ward, LABS)
    assert result.sites[0].warnings[0] == "no table d_labitems: its codes have no labels"
    assert cells(site) == {("777001", "aspirin", "50931"): 1}


def test_a_path_that_does_not_exist_is_named(tmp_path):
    with pytest.raises(NoSuchFile, match="nowhere"):
        run_ingest(Mimic(), tmp_path / "nowhere", LABS)


def test_a_parquet_file_that_is_none_is_refused(tmp_path):
    folder = tmp_path / "cdm"
    folder.mkdir()
    (folder / "drug_exposure.parquet").write_bytes(b"PAR1 not really")
    with pytest.raises(UnreadableTable):
        run_ingest(OMOP(), folder)


def test_a_path_with_quotes_and_blanks_is_only_a_path(tmp_path, ward):
    odd = tmp_path / 'it\'s "odd"; DROP TABLE'
    os.rename(ward, odd)
    site, _ = run_ingest(Mimic(), odd, LABS)
    assert cells(site) == {("777001", "aspirin", "50931"): 1}


def test_a_duckdb_file_is_read_like_the_files(ward, tmp_path):
    path = tmp_path / "ehr.duckdb"
    with duckdb.connect(str(path)) as db:
        for file in ward.glob("*.csv"):
            db.execute(f'CREATE TABLE "{file.stem}" AS FROM "{file}"')
    site, result = run_ingest(Mimic(), path, LABS)
    assert cells(site) == {("777001", "aspirin", "50931"): 1}
    assert result.sites[0].described == "MIMIC-III"


def test_nothing_private_is_left_behind_when_a_run_fails(ward):
    rewrite(ward / "LABEVENTS.csv", lambda b: b.replace(b"abnormal", b""))
    with pytest.raises(EmptyMode, match="1 rows: not abnormal"):
        run_ingest(Mimic(), ward, LABS)
    site = ward.with_name("ward-site")
    assert not site.exists()


def test_a_second_ingest_into_the_same_folder_replaces_the_first(ward):
    site, _ = run_ingest(Mimic(), ward, LABS)
    rewrite(ward / "PRESCRIPTIONS.csv", lambda b: b.replace(b"Aspirin", b"Heparin"))
    site, _ = run_ingest(Mimic(), ward, LABS)
    assert cells(site) == {("777001", "heparin", "50931"): 1}


def test_a_run_that_fails_leaves_the_earlier_one_as_it_was(ward):
    site, _ = run_ingest(Mimic(), ward, LABS)
    before = (site / "events.parquet").read_bytes()
    (ward / "LABEVENTS.csv").unlink()
    with pytest.raises(MissingTable):
        run_ingest(Mimic(), ward, LABS)
    assert (site / "events.parquet").read_bytes() == before


def test_what_a_killed_run_left_is_removed_by_the_next(ward):
    site, _ = run_ingest(Mimic(), ward, LABS)
    (site / "local" / "work-dead").mkdir()
    (site / "local" / "work-dead" / "placed-0.parquet").write_bytes(b"rows")
    run_ingest(Mimic(), ward, LABS)
    assert sorted(path.name for path in (site / "local").iterdir()) == [
        "patients.parquet", "windows.parquet",
    ]  # fmt: skip
