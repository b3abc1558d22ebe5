"""Events and cells from text files: text is text until a column is declared otherwise."""

import codecs
import gzip

import pytest

from tripheno.errors import BadCells, BadEvents
from tripheno.tensor.reading import read_tensor

CELLS = "patient,medication,diagnosis,value\n001,a,008.45,1\n1,a,250.00,2\n2,b,250,1\n2,b,0250,3\n"
EVENTS = (
    'patient,window,mode,code\n0,0,medication,"0071"\n0,0,diagnosis,"250.00"\n'
    "0,0,diagnosis,250\n1,1,medication,71\n1,1,diagnosis,250\n"
)


def read(tmp_path, data, name="table.csv"):
    path = tmp_path / name
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return read_tensor(path)


def test_patients_and_codes_that_look_alike_stay_apart(tmp_path):
    tensor = read(tmp_path, CELLS)
    assert tensor.shape == (3, 2, 4)
    assert tensor.axes[1].codes == ("008.45", "0250", "250", "250.00")


def test_numeric_codes_in_event_files_are_text(tmp_path):
    tensor = read(tmp_path, EVENTS)
    assert [axis.codes for axis in tensor.axes] == [("0071", "71"), ("250", "250.00")]


def test_patients_that_are_no_plain_numbers_are_numbered(tmp_path):
    tensor = read(tmp_path, EVENTS.replace("\n1,1,", "\n000,1,"))
    assert tensor.shape[0] == 2


HARMLESS = {
    "packed under a plain name": gzip.compress,
    "byte-order mark": lambda b: codecs.BOM_UTF8 + b,
    "UTF-16": lambda b: b.decode().encode("utf-16"),
    "Windows line ends": lambda b: b.replace(b"\n", b"\r\n"),
    "old Mac line ends": lambda b: b.replace(b"\n", b"\r"),
    "semicolons": lambda b: b.replace(b",", b";"),
    "blanks around words": lambda b: b.replace(b",", b" , "),
}


@pytest.mark.parametrize("change", HARMLESS)
@pytest.mark.parametrize("name", ["cells", "events"])
def test_a_harmless_change_leaves_the_tensor_as_it_is(tmp_path, name, change):
    text = {"cells": CELLS, "events": EVENTS}[name].encode()
    one = read(tmp_path, text)
    other = read(tmp_path, HARMLESS[change](text), "changed.csv")
    assert (one.shape, [a.codes for a in one.axes]) == (other.shape, [a.codes for a in other.axes])
    assert one.cells.indices.tolist() == other.cells.indices.tolist()
    assert one.cells.values.tolist() == other.cells.values.tolist()


@pytest.mark.parametrize("word", ["NULL", "NA", "\\N", "None", ""])
def test_a_missing_word_is_never_a_patient_or_a_code(tmp_path, word):
    with pytest.raises(BadCells, match="'patient' is missing in 1 of 4 cells"):
        read(tmp_path, CELLS.replace("\n1,", f"\n{word},"))
    with pytest.raises(BadEvents, match="'code' is missing in 1 rows"):
        read(tmp_path, EVENTS.replace('"0071"', word))


def test_a_value_that_is_no_number_is_refused(tmp_path):
    with pytest.raises(BadCells, match="not a number"):
        read(tmp_path, CELLS.replace(",3\n", ",many\n"))
