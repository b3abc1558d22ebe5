"""Flat tables by a mapping, and ready-made cells."""

import gzip

import pytest

from tripheno.errors import BadCells, BadSiteSettings, MissingColumn, SettingsError, UnknownRecords
from tripheno.records.flat import Flat
from tripheno.records.mapping import read_mapping
from tripheno.testing.small_tables import cells, run_ingest, write_tables

LONG = """
    who,stay,kind,what,name,house
    1,11,DX,I10;E11.9,High pressure,North
    1,11,RX,Aspirin,,North
    2,21,DX,I10,High pressure,South
    2,21,RX,ASPIRIN ,,South
    2,21,ALLERGY,Penicillin,,South
    """
TABLE = '[[source.tables]]\nfile = "long.csv"\npatient = "who"\nvisit = "stay"\ncode = "what"\n'
MAPPING = (
    TABLE + 'mode = "diagnosis"\nonly = { column = "kind", values = ["DX"] }\nseparator = ";"\n'
    'system = "ICD10CM"\nlabel = "name"\nhospital = "house"\n'
    + TABLE + 'mode = "medication"\nonly = { column = "kind", values = ["RX"] }\n'
    'hospital = "house"\n'
)  # fmt: skip


@pytest.fixture
def long(tmp_path):
    folder = write_tables(tmp_path / "long", long=LONG)
    (folder / "site.toml").write_text(MAPPING)
    return folder


def test_rows_of_one_kind_split_fields_and_spell_codes(long):
    site, result = run_ingest(Flat(), long)
    assert cells(site) == {
        ("1", "aspirin", "ICD10CM:I10"): 1,
        ("1", "aspirin", "ICD10CM:E11.9"): 1,
        ("2", "aspirin", "ICD10CM:I10"): 1,
    }
    diagnoses = next(table for table in result.sites[0].tables if table.mode == "diagnosis")
    assert (diagnoses.read, diagnoses.used) == (5, 2)
    assert diagnoses.dropped == {"another kind": 3}


def test_a_hospital_column_gives_one_folder_each(long):
    site, result = run_ingest(Flat(), long, by="hospital")
    assert [coverage.site for coverage in result.sites] == ["North", "South"]
    assert cells(site / "South") == {("2", "aspirin", "ICD10CM:I10"): 1}


def test_strength_can_be_stripped_from_drug_names(long):
    text = (long / "long.csv").read_text().replace("Aspirin,", "Aspirin 81 mg,")
    (long / "long.csv").write_text(text)
    site, _ = run_ingest(Flat(), long, strip_strength=True)
    assert {drug for _, drug, _ in cells(site)} == {"aspirin"}


def test_every_fault_of_a_mapping_is_told_at_once_with_its_line(tmp_path):
    path = tmp_path / "site.toml"
    path.write_text(
        '[[source.tables]]\nfile = 7\nmode = "x"\ncolour = "red"\n\n'
        '[[source.tables]]\nfile = "a.csv"\nmode = "x"\npatient = "p"\ncode = "c"\nflags = ["d"]\n'
    )
    with pytest.raises(BadSiteSettings) as caught:
        read_mapping(path)
    for fault in (
        "line 1: unknown key 'colour'",
        "line 1: no 'patient'",
        "line 1: 'file' must be text",
        "line 1: give either 'code' or 'flags'",
        "line 6: give either 'code' or 'flags'",
    ):
        assert fault in str(caught.value)


@pytest.mark.parametrize(
    ("text", "why"), [("not toml", "not TOML"), ("x = 1\n", r"no \[\[source.tables\]\]")]
)
def test_a_file_that_is_no_mapping_is_refused(tmp_path, text, why):
    (tmp_path / "site.toml").write_text(text)
    with pytest.raises(BadSiteSettings, match=why):
        read_mapping(tmp_path / "site.toml")


def test_modes_that_the_mapping_lacks_are_refused(long):
    with pytest.raises(SettingsError, match=r"no mode 'lab'.*diagnosis, medication"):
        run_ingest(Flat(), long, ("medication", "lab"))


def test_a_column_that_is_not_there_is_named(long):
    (long / "site.toml").write_text(MAPPING.replace('"what"', '"which"'))
    with pytest.raises(MissingColumn, match=r"no column 'which'.*found instead: who, stay"):
        run_ingest(Flat(), long)


CELLS = "patient,medication,diagnosis,value\nx,asa,I10,2\nx,asa,I10,1\ny,asa,E11,4\ny,hep,E11,1\n"


@pytest.fixture
def counted(tmp_path):
    folder = tmp_path / "counted"
    folder.mkdir()
    (folder / "cells.csv").write_text(CELLS)
    return folder


def test_cells_come_back_as_the_same_cells_and_equal_ones_are_added(counted):
    site, _ = run_ingest(Flat(), counted)
    assert cells(site) == {
        ("x", "asa", "I10"): 3, ("y", "asa", "E11"): 4, ("y", "hep", "E11"): 1,
    }  # fmt: skip


def test_a_frostt_tensor_is_read(tmp_path):
    path = tmp_path / "small.tns.gz"
    path.write_bytes(gzip.compress(b"# a comment\n1 1 2 3.0\n2 1 1 1.0\n"))
    site, _ = run_ingest(Flat(), path)
    assert cells(site) == {("1", "1", "2"): 3, ("2", "1", "1"): 1}


@pytest.mark.parametrize("value", ["0", "-1", "1.5", "many", ""])
def test_a_cell_that_is_no_count_is_refused(counted, value):
    (counted / "cells.csv").write_text(CELLS + f"z,asa,I10,{value}\n")
    with pytest.raises(BadCells, match=r"1 of [45] values are not whole counts"):
        run_ingest(Flat(), counted)


def test_cells_of_other_modes_or_with_a_window_are_refused(counted):
    with pytest.raises(SettingsError, match="modes medication, diagnosis"):
        run_ingest(Flat(), counted, ("medication", "lab"))
    with pytest.raises(SettingsError, match="counted already"):
        run_ingest(Flat(), counted, window="person")


def test_tables_without_a_mapping_are_no_cells(tmp_path):
    folder = write_tables(tmp_path / "raw", visits="a,b\n1,2")
    with pytest.raises(UnknownRecords, match="Neither a column mapping nor cells"):
        run_ingest(Flat(), folder)
