# ruff: noqa: E501 - rows of tables read best on one line
"""What strangers' exports do to columns, ids, codes and files: the same cells, or a word about it.

Beside `test_metamorphic.py`, which changes spelling and layout; the small tables are the same.
"""

import codecs
import csv
import gzip
import io
import json
import lzma
import sqlite3
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kit.small_exports import (
    DX,
    ICD10,
    MIMIC,
    ORDERS,
    RXNORM,
    SOURCES,
    STAY,
    as_lines,
    bundle,
    meds_shard,
    put,
    resources,
    run,
    written,
)
from tripheno.errors import TriphenoError
from tripheno.records.fhir import FHIR
from tripheno.records.flat import Flat
from tripheno.records.meds import MEDS
from tripheno.records.quality import findings
from tripheno.tensor.reading import read_tensor
from tripheno.testing.small_tables import cells, run_ingest


def rows(name, change):
    """Change the rows of one table."""

    def go(folder):
        held = list(csv.reader(io.StringIO((folder / name).read_text())))
        (folder / name).write_bytes(written(change(held)))

    return go


def column(number, change):
    return lambda held: [
        held[0],
        *([*r[:number], change(r[number]), *r[number + 1 :]] for r in held[1:]),
    ]


def data(name, change):
    """Change the bytes of one file."""
    return lambda folder: (folder / name).write_bytes(change((folder / name).read_bytes()))


def one(row, number, value):
    """Change one field only: what happens to a few rows is the hardest to see."""

    def change(held):
        held[row][number] = value
        return held

    return change


def with_column(name, value):
    return lambda held: [[*held[0], name], *([*row, value] for row in held[1:])]


def more(*row):
    return lambda held: [*held, list(row)]


def parquet(name, **types):
    """The table as Parquet, some columns in other types."""

    def go(folder):
        head, *held = csv.reader(io.StringIO((folder / name).read_text()))
        (folder / name).unlink()
        columns = {h: [row[n] for row in held] for n, h in enumerate(head)}
        made = {h: types[h](v) if h in types else pa.array(v) for h, v in columns.items()}
        pq.write_table(pa.table(made), folder / name.replace(".csv", ".parquet"))

    return go


def numbers(kind):
    return lambda held: pa.array([kind(v) for v in held])


def as_bytes(held):
    return pa.array([v.encode() for v in held], pa.binary())


def in_folders(*names, change=lambda held: held, last=None):
    """Every table's first row in the first folder, the others in the second."""

    def go(folder):
        for path in list(folder.glob("*.csv")):
            head, *held = csv.reader(io.StringIO(path.read_text()))
            path.unlink()
            put(folder / names[0], {path.name: [head, *held[:1]]})
            put(folder / names[1], {path.name: change([head, *held[1:]])}, last or written)

    return go


def through_a_link(folder):
    in_folders("2020", "2021")(folder)
    elsewhere = folder.with_name("elsewhere")
    (folder / "2021").rename(elsewhere)
    (folder / "2021").symlink_to(elsewhere)


def as_spark_wrote_it(folder):
    for path in list(folder.glob("*.csv")):
        held = path.read_bytes()
        path.unlink()
        path.mkdir()
        (path / "part-00000-a.csv").write_bytes(held)
        (path / "_SUCCESS").write_text("")


HARMLESS = {
    "a mark within the packed file": ("mimic", data(ORDERS, lambda b: gzip.compress(codecs.BOM_UTF8 + b))),
    "wide blanks around fields": ("mimic", data(ORDERS, lambda b: b.replace(b",", b"  ,   "))),
    "tabs around fields": ("mimic", data(ORDERS, lambda b: b.replace(b",", b",\t"))),
    "ids with a point": ("mimic", rows(ORDERS, column(0, lambda v: v + "."))),
    "ICD codes with a decimal comma": ("mimic", rows(DX, column(2, lambda v: v[:3] + "," + v[3:]))),
    "ICD codes behind a tab": ("mimic", rows(DX, column(2, lambda v: "\t" + v))),
    "a year in capitals": ("mimic", in_folders("2020", "2021", change=lambda h: [[c.upper() for c in h[0]], *h[1:]])),
    "a year with semicolons": ("mimic", in_folders("2020", "2021", last=lambda held: written(held, ";"))),
    "a year packed": ("mimic", in_folders("2020", "2021", last=lambda held: gzip.compress(written(held)))),
    "a year in UTF-16": ("mimic", in_folders("2020", "2021", last=lambda held: written(held).decode().encode("utf-16"))),
    "a year behind a link": ("mimic", through_a_link),
    "parts as Spark writes them": ("mimic", as_spark_wrote_it),
    "Parquet ids as wide decimals": (
        "mimic", parquet(ORDERS, subject_id=lambda v: pa.array(map(Decimal, v), pa.decimal128(38, 2)))),
    "Parquet ids as unsigned numbers": (
        "mimic", parquet(ORDERS, subject_id=lambda v: pa.array(map(int, v), pa.uint64()))),
    "Parquet concepts as floats": ("omop", parquet("drug_exposure.csv", drug_concept_id=numbers(float))),
    "Parquet persons of 32 bits": (
        "omop", parquet("drug_exposure.csv", person_id=lambda v: pa.array(map(int, v), pa.int32()))),
    "minutes as 17.0": ("eicu", rows("medication.csv", column(1, lambda v: v + ".0"))),
    "codes parted by semicolons": ("eicu", rows("diagnosis.csv", column(3, lambda v: v.replace(", ", ";")))),
    "delimiter at every end": ("mimic", data(ORDERS, lambda b: b.replace(b"\n", b",\n"))),
    "notes over two lines": ("mimic", rows(ORDERS, with_column("note", "one\ntwo, three"))),
    "notes with quotation marks": ("mimic", rows(ORDERS, with_column("note", 'says "yes", twice'))),
    "blank lines between": ("mimic", data(ORDERS, lambda b: b.replace(b"\n", b"\n\n"))),
    "ids as 17.0": ("mimic", rows(ORDERS, column(0, lambda v: v + ".0"))),
    "ids as 17.00": ("mimic", rows(ORDERS, column(0, lambda v: v + ".00"))),
    "ids as formulas": ("mimic", rows(ORDERS, column(0, lambda v: f'="{v}"'))),
    "ids behind an apostrophe": ("mimic", rows(ORDERS, column(1, lambda v: "'" + v))),
    "drugs in capitals": ("mimic", rows(ORDERS, column(4, str.upper))),
    "drugs with a hard blank": ("mimic", rows(ORDERS, column(4, lambda v: v + "\u00a0"))),
    "drugs with a mark without width": ("mimic", rows(ORDERS, column(4, lambda v: "\u200b" + v))),
    "NUL bytes": ("mimic", data(ORDERS, lambda b: b.replace(b"Aspirin", b"Asp\x00irin"))),
    "ICD codes in small letters": ("mimic", rows(DX, column(2, str.lower))),
    "ICD codes with their point": ("mimic", rows(DX, column(2, lambda v: v[:3] + "." + v[3:]))),
    "two packed pieces": ("mimic", data(ORDERS, lambda b: gzip.compress(b[:60]) + gzip.compress(b[60:]))),
    "plain text named gz": ("mimic", lambda f: (f / ORDERS).rename(f / (ORDERS + ".gz"))),
    "two byte-order marks": ("mimic", data(ORDERS, lambda b: codecs.BOM_UTF8 * 2 + b)),
    "UTF-32": ("mimic", data(ORDERS, lambda b: b.decode().encode("utf-32"))),
    "header with blanks": ("mimic", data(ORDERS, lambda b: b.replace(b"subject_id,", b" subject_id ,"))),
    "an editor's lock file": ("mimic", lambda f: (f / ".~lock.PRESCRIPTIONS.csv#").write_text("x")),
    "Parquet under a text's name": (
        "mimic", lambda f: (parquet(ORDERS)(f), (f / "PRESCRIPTIONS.parquet").rename(f / ORDERS))),
    "text under Parquet's name": ("mimic", lambda f: (f / ORDERS).rename(f / "PRESCRIPTIONS.parquet")),
    "Parquet ids as decimals": ("mimic", parquet(ORDERS, subject_id=numbers(Decimal))),
    "Parquet ids as floats": ("mimic", parquet(ORDERS, subject_id=numbers(float), hadm_id=numbers(float))),
    "Parquet ids as bytes": ("mimic", parquet(ORDERS, subject_id=as_bytes)),
    "Parquet ICD codes as bytes": ("mimic", parquet(DX, icd9_code=as_bytes)),
    "Parquet ICD codes in a dictionary": ("mimic", parquet(DX, icd9_code=lambda v: pa.array(v).dictionary_encode())),
    "HICL with leading zeros": ("eicu", rows("medication.csv", column(3, lambda v: "00" + v))),
    "HICL as 17.0": ("eicu", rows("medication.csv", column(3, lambda v: v + ".0"))),
    "ICD codes the other way round": (
        "eicu", rows("diagnosis.csv", column(3, lambda v: ", ".join(v.split(", ")[::-1])))),
    "concepts as 17.0": ("omop", rows("drug_exposure.csv", column(1, lambda v: v + ".0"))),
    "a file's name in capitals": ("flat", lambda f: (f / "orders.csv").rename(f / "ORDERS.CSV")),
}  # fmt: skip


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    found = {}
    for source, (_, tables) in SOURCES.items():
        folder = tmp_path_factory.mktemp(source) / "plain"
        put(folder, tables)
        found[source] = run(source, folder)
    return found


@pytest.mark.parametrize("name", HARMLESS)
def test_a_harmless_change_leaves_every_cell(tmp_path, base, name):
    source, change = HARMLESS[name]
    put(tmp_path / "export", SOURCES[source][1])
    change(tmp_path / "export")
    tensor, coverage = run(source, tmp_path / "export")
    tensor_before, coverage_before = base[source]
    assert tensor == tensor_before
    assert sum(t.read for t in coverage.tables) == sum(t.read for t in coverage_before.tables)


COPY = "Copy of PRESCRIPTIONS.csv"


def in_a_delta_table(folder):
    parquet(ORDERS)(folder)
    table = folder / "prescriptions"
    (table / "_delta_log").mkdir(parents=True)
    (folder / "PRESCRIPTIONS.parquet").rename(table / "part-00000.parquet")


REFUSED = {
    "a Delta table": ("mimic", in_a_delta_table, "is a Delta table"),
    "a link that leads nowhere": (
        "mimic", lambda f: ((f / ORDERS).unlink(), (f / ORDERS).symlink_to("gone")), "leads nowhere"),
    "a deeper folder": ("mimic", in_folders("2020", "a/b/c/d/2021"), "an older copy"),
    "a year of other columns": ("mimic", in_folders("2020", "2021", change=with_column("x", "1")), "columns differ"),
    "an empty year": ("mimic", in_folders("2020", "2021", last=lambda _: b""), "no header"),
    "padding behind the packed file": ("mimic", data(ORDERS, lambda b: gzip.compress(b) + b"garbage"), "damaged"),
    "zeros behind the last line": ("mimic", data(ORDERS, lambda b: b + b"\0" * 99), "fewer columns"),
    "a mark of an old system at the end": ("mimic", data(ORDERS, lambda b: b + b"\x1a"), "fewer columns"),
    "a comma behind a backslash": ("mimic", data(ORDERS, lambda b: b.replace(b"Hep", b"Hep\\,")), "fewer columns"),
    "ids of a whole table with zeros": ("mimic", rows(ORDERS, column(0, lambda v: "0" + v)), "write ids alike"),
    "ids of a whole table with a plus": ("mimic", rows(ORDERS, column(0, lambda v: "+" + v)), "write ids alike"),
    "ids of a whole table with commas": ("mimic", rows(ORDERS, column(0, lambda v: "7," + v[1:])), "write ids alike"),
    "an ICD version 09": (
        "mimic", rows(DX, lambda h: [["subject_id", "hadm_id", "icd_code", "icd_version"], *([*r, "09"] for r in h[1:])]),
        "unknown ICD version"),
    "concepts rounded by a spreadsheet": (
        "omop", rows("drug_exposure.csv", column(1, lambda _: "1.1E+06")), "rounded"),
    "stays with zeros in one table": (
        "eicu", rows("medication.csv", column(0, lambda v: "0" + v)), "stay not in patient table"),
    "codes of one's own as floats": (
        "flat", parquet("orders.csv", drug=lambda _: pa.array([250.0, 250.0, 8.45])), "export the column as text"),
    "a column twice": ("mimic", rows(ORDERS, with_column("drug", "Warfarin")), "'drug' is there more than once"),
    "a column twice in tables of one's own": (
        "flat", rows("orders.csv", with_column("drug", "X")), "'drug' is there more than once"),
    "columns that differ by capitals": (
        "mimic", lambda f: (rows(ORDERS, with_column("DRUG2", "X"))(f), parquet(ORDERS)(f), twin(f)), "more than once"),
    "a column of lists": ("mimic", parquet(ORDERS, drug=lambda v: pa.array([[x] for x in v])), "lists or records"),
    "ICD codes as floats": ("mimic", parquet(DX, icd9_code=lambda _: pa.array([4019.0, 845, 25000, 1])), "export the column as text"),
    "a title above the header": ("mimic", data(ORDERS, lambda b: b"Ward 3,,,,\n" + b), "has no column"),
    "a comment above the header": ("mimic", data(ORDERS, lambda b: b"# 2024\n" + b), "has no column"),
    "a separator line of a spreadsheet": ("mimic", data(ORDERS, lambda b: b"sep=,\n" + b), "has no column"),
    "no header": ("mimic", data(ORDERS, lambda b: b.split(b"\n", 1)[1]), "looks like data"),
    "an empty file": ("mimic", data(ORDERS, lambda _: b""), "no header"),
    "a count at the end": ("mimic", data(ORDERS, lambda b: b + b"(4 rows)\n"), "fewer columns"),
    "escaped quotation marks": ("mimic", data(ORDERS, lambda b: b.replace(b"Aspirin", b'"Asp\\"irin, x"')), "damaged"),
    "packed twice": ("mimic", data(ORDERS, lambda b: gzip.compress(gzip.compress(b))), "TRIP-E3"),
    "xz under its name": ("mimic", data(ORDERS, lzma.compress), "xz"),
    "Parquet cut off": (
        "mimic", lambda f: (parquet(ORDERS)(f), data("PRESCRIPTIONS.parquet", lambda b: b[:-20])(f)), "Parquet"),
    "a page under its name": ("mimic", data(ORDERS, lambda b: b"<html><td>" + b), "has no column"),
    "a delimiter nobody uses": ("mimic", data(ORDERS, lambda b: b.replace(b",", b"^")), "MIMIC|delimiter"),
    "a line of 2 MB": ("mimic", rows(ORDERS, with_column("note", "y" * 2_500_000)), "longer than 2 MB"),
    "ids rounded by a spreadsheet": ("mimic", rows(ORDERS, one(3, 0, "7.0E+03")), "too large"),
    "a copy beside it": ("mimic", lambda f: (f / COPY).write_bytes((f / ORDERS).read_bytes() + b"1,1,,,Z\n"), "a part, a copy"),
    "a contradicting stay": ("eicu", rows("patient.csv", more("70", "700", "002-7", "99")), "contradict"),
}  # fmt: skip


def twin(folder):
    path = folder / "PRESCRIPTIONS.parquet"
    table = pq.read_table(path)
    pq.write_table(
        table.rename_columns([c.replace("DRUG2", "DRUG") for c in table.column_names]), path
    )


@pytest.mark.parametrize("name", REFUSED)
def test_a_harmful_change_is_refused_with_its_reason(tmp_path, name):
    source, change, reason = REFUSED[name]
    put(tmp_path / "export", SOURCES[source][1])
    change(tmp_path / "export")
    with pytest.raises(TriphenoError, match=reason) as caught:
        run(source, tmp_path / "export")
    assert "7001" not in str(caught.value)


def both(patient):
    return lambda f: (
        rows(ORDERS, more(patient, "10", "2150-01-01", "", "X"))(f),
        rows(DX, more(patient, "10", "4019"))(f),
    )


SAID = {
    "an id with a comma": (rows(ORDERS, one(3, 0, "7,002")), "patients: 1 of 4 ids are no whole numbers"),
    "an id in wide digits": (rows(ORDERS, one(3, 0, "７００２")), "patients: 1 of 4 ids are no whole numbers"),
    "an id with leading zeros": (rows(ORDERS, one(3, 0, "007002")), "patients: 1 ids equal another"),
    "a visit with leading zeros": (rows(ORDERS, one(3, 1, "0020")), "visits: 1 ids equal another"),
    "a visit of several patients": (rows(ORDERS, one(3, 1, "10")), "visits: 1 ids belong to several patients"),
    "visit 0 for no visit": (
        lambda f: (rows(ORDERS, column(1, lambda _: "0"))(f), rows(DX, column(1, lambda _: "0"))(f)),
        "visits: 1 ids belong to several patients"),
    "a patient UNKNOWN": (both("UNKNOWN"), "no patient"),
    "a patient ?": (both("?"), "no patient"),
    "a drug (null)": (rows(ORDERS, one(2, 4, "(null)")), "no code"),
    "a drug -": (rows(ORDERS, one(2, 4, "-")), "no code"),
    "a drug #NULL!": (rows(ORDERS, one(2, 4, "#NULL!")), "no code"),
    "ICD codes as floats in text": (rows(DX, column(2, lambda v: v + ".0")), "not an ICD-9 code"),
    "ICD codes with O for 0": (rows(DX, one(3, 2, "25OOO")), "not an ICD-9 code"),
    "ICD codes with their system": (rows(DX, one(3, 2, "ICD9:25000")), "not an ICD-9 code"),
    "the header once more": (data(ORDERS, lambda b: b + b), "1 rows dropped: no patient"),
    "a ward's own table beside it": (
        lambda f: (f / "ward_PRESCRIPTIONS.csv").write_bytes((f / ORDERS).read_bytes()), "not read: ward_PRESCRIPTIONS.csv"),
    "a zipped part beside it": (lambda f: (f / "PRESCRIPTIONS_2021.zip").write_bytes(b"PK"), "not read: PRESCRIPTIONS_2021.zip"),
    "a part of unknown form beside it": (lambda f: (f / "prescriptions2.dat").write_bytes(b"x"), "not read: prescriptions2.dat"),
    "letters read in another encoding": (rows(ORDERS, one(2, 4, "Asp\u00c3\u00a9rin")), "1 codes were read in another encoding"),
    "letters that were lost": (rows(ORDERS, one(2, 4, "Asp\ufffdrin")), "1 codes were read in another encoding"),
    "a page's spelling": (rows(ORDERS, one(2, 4, "Iron&amp;C")), "1 codes were read in another encoding"),
    "an ICD code with a dagger": (rows(DX, one(2, 2, "008.45+")), "not an ICD-9 code"),
    "an ICD code with a gap": (rows(DX, one(2, 2, "008.-")), "not an ICD-9 code"),
    "a visit -1 for none": (rows(ORDERS, one(3, 1, "-1")), "visits: 1 of 4 ids are no whole numbers"),
    "a workbook beside it": (lambda f: (f / "PRESCRIPTIONS.xlsx").write_bytes(b"PK\x03\x04"), "not read: PRESCRIPTIONS.xlsx"),
    "an older file beside it": (lambda f: (f / "PRESCRIPTIONS.csv.bak").write_bytes(b"x"), "not read: PRESCRIPTIONS.csv.bak"),
    "two columns for one time": (rows(ORDERS, with_column("starttime", "2150-01-01")), "'starttime' is read, not startdate"),
}  # fmt: skip


def told_by(read):
    """The refusal, or the warnings and the reasons of dropped rows."""
    try:
        coverage = read()
    except TriphenoError as fault:
        return [str(fault)]
    return [*coverage.warnings, *(reason for t in coverage.tables for reason in t.dropped)]


@pytest.mark.parametrize("name", SAID)
def test_what_may_be_wrong_is_said(tmp_path, name):
    change, words = SAID[name]
    put(tmp_path / "export", MIMIC)
    change(tmp_path / "export")
    told = told_by(lambda: run("mimic", tmp_path / "export")[1])
    assert any(words in line for line in told), told
    assert not any("7002" in line or "UNKNOWN" in line for line in told)


def test_a_list_of_icd_codes_without_a_leading_zero_is_doubted():
    full = [f"ICD9CM:{number}" for number in range(10, 200)]
    assert findings((), (), codes=full) == (
        "no ICD-9 code begins with 0: did the export lose leading zeros?",
    )
    assert findings((), (), codes=[*full, "ICD9CM:008.45"]) == ()


def test_a_list_of_icd_codes_none_of_which_ends_with_zero_is_doubted():
    full = [f"ICD9CM:{n:03}.{m}1" for n in range(0, 200, 2) for m in (1, 2)]
    assert findings((), (), codes=full) == (
        "no ICD-9 code ends with 0: did the export lose zeros after the point?",
    )
    assert findings((), (), codes=[*full, "ICD9CM:250.00"]) == ()


@pytest.mark.parametrize("concept", ["-1", "00", "aspirin"])
def test_a_concept_that_is_none_is_counted(tmp_path, concept):
    put(tmp_path / "export", SOURCES["omop"][1])
    rows("drug_exposure.csv", one(2, 1, concept))(tmp_path / "export")
    _, coverage = run("omop", tmp_path / "export")
    assert coverage.tables[1].dropped == {"not a concept id": 1}


def test_icd_codes_that_were_numbers_in_sqlite_are_refused(tmp_path):
    path = tmp_path / "export"
    with sqlite3.connect(path) as db:
        for name, (head, *held) in MIMIC.items():
            types = ", ".join(f"{c} {'INTEGER' if c == 'icd9_code' else 'TEXT'}" for c in head)
            db.execute(f"CREATE TABLE {name.removesuffix('.csv')} ({types})")
            marks = ", ".join("?" * len(head))
            db.executemany(f"INSERT INTO {name.removesuffix('.csv')} VALUES ({marks})", held)
    db.close()
    with pytest.raises(TriphenoError, match="export the column as text"):
        run("mimic", path)


def test_a_gap_in_a_column_of_floats_is_missing(tmp_path, base):
    put(tmp_path / "export", SOURCES["omop"][1])
    gap = {"visit_occurrence_id": lambda v: pa.array([float("nan"), *map(float, v[1:])])}
    parquet("drug_exposure.csv", **gap)(tmp_path / "export")
    tensor, coverage = run("omop", tmp_path / "export")
    assert len(tensor) == len(base["omop"][0]) - 1
    assert coverage.tables[1].dropped == {"no visit": 1}


def test_an_offset_moves_no_time_over_midnight(tmp_path):
    put(tmp_path / "export", MIMIC)
    labs = ["subject_id,hadm_id,itemid,charttime,flag", "7001,10,5,2150-01-01,abnormal"]
    (tmp_path / "export" / "LABEVENTS.csv").write_text("\n".join(labs) + "\n")
    rows(ORDERS, column(2, lambda v: v + " 00:30:00+02"))(tmp_path / "export")
    tensor, _ = run("mimic", tmp_path / "export", modes=("medication", "lab"), window="same-day")
    assert len(tensor) == 2


def flags(yes, no):
    head = ["who", "stay", "code", "insulin"]
    return {"a.csv": [head, ["1", "a", "X", yes], ["2", "b", "Y", no], ["3", "c", "Y", yes]]}


FLAGS = """
[[source.tables]]
file = "a.csv"
mode = "diagnosis"
patient = "who"
visit = "stay"
code = "code"
[[source.tables]]
file = "a.csv"
mode = "medication"
patient = "who"
visit = "stay"
flags = ["insulin"]
"""


@pytest.mark.parametrize(
    ("yes", "no", "told"),
    [("1.0", "0.0", ""), ("1", "00", ""), ("x", "", ""), ("Yes", " No ", ""),
     ("ja", "nein", "a.csv: taken as given: ja, nein"), ("5 mg", "0 mg", "a.csv: taken as given: 2 other values")],
)  # fmt: skip
def test_what_a_flag_says_is_understood_or_named(tmp_path, yes, no, told):
    put(tmp_path / "export", flags(yes, no))
    (tmp_path / "site.toml").write_text(FLAGS)
    site, result = run_ingest(Flat(), tmp_path / "export", mapping=tmp_path / "site.toml")
    assert (told in result.sites[0].warnings) == bool(told)
    assert len(cells(site)) == (3 if told else 2)


def test_a_bound_that_is_no_number_is_refused(tmp_path):
    put(tmp_path / "export", SOURCES["eicu"][1])
    labs = [["patientunitstayid", "labresultoffset", "labname", "labresult"], ["70", "5", "K", "9"]]
    put(tmp_path / "export", {"lab.csv": labs})
    (tmp_path / "export" / "reference_ranges.csv").write_text("code;low;high\nK;3,5;5,0\n")
    with pytest.raises(TriphenoError, match="1 rows have bounds that are no numbers"):
        run("eicu", tmp_path / "export", modes=("medication", "lab"))


# ── FHIR ──────────────────────────────────────────────────────────────────────────────────────────


def spelt(old, new):
    return lambda: as_lines(json.loads(json.dumps(resources()).replace(old, new)))


def with_fields(number, **fields):
    def go():
        items = resources()
        items[number].update(fields)
        return as_lines(items)

    return go


def older_by_zone():
    first = {**resources()[0], "meta": {"lastUpdated": "2020-01-01T10:00:00Z"}}
    older = {
        **first,
        "meta": {"lastUpdated": "2020-01-01T11:00:00+05:00"},
        "status": "entered-in-error",
    }
    return as_lines([first, older, *resources()[1:]])


FHIR_HARMLESS = {
    "byte-order mark": lambda: codecs.BOM_UTF8 + as_lines(resources()).encode(),
    "UTF-16": lambda: as_lines(resources()).encode("utf-16"),
    "old Mac line ends": lambda: as_lines(resources()).replace("\n", "\r"),
    "packed under a plain name": lambda: gzip.compress(as_lines(resources()).encode()),
    "a Bundle over many lines": lambda: json.dumps(bundle(resources()), indent=1),
    "an array on one line": lambda: json.dumps(resources()),
    "Bundles in a Bundle": lambda: json.dumps(bundle([bundle(resources()[:3]), bundle(resources()[3:])])),
    "full addresses": spelt('"Patient/', '"https://fhir.example.org/r4/Patient/'),
    "blanks in a reference": spelt('"Patient/7"', '"Patient/7 "'),
    "a system with a slash": spelt(RXNORM, RXNORM + "/"),
    "systems by https": spelt("http://", "https://"),
    "systems by number": spelt(RXNORM, "urn:oid:2.16.840.1.113883.6.88"),
    "ICD by number": spelt(ICD10, "urn:oid:2.16.840.1.113883.6.90"),
    "ICD without its point": spelt("E11.9", "E119"),
    "an older version in another zone": older_by_zone,
    "a SNOMED code first": with_fields(
        2, code={"coding": [{"system": "http://snomed.info/sct", "code": "44054006"}, {"system": ICD10, "code": "E11.9"}]}),
    "parents in a circle": with_fields(3, partOf={"reference": "Encounter/71"}),
}  # fmt: skip
FHIR_SAID = {
    "a condition's code is words": (spelt("E11.9", "diabetes"), "not an ICD-10 code"),
    "two codes in one": (spelt("E11.9", "E11.9, I10"), "not an ICD-10 code"),
    "an ICD-9 code as ICD-10": (spelt("E11.9", "250.00"), "not an ICD-10 code"),
    "a code NULL": (spelt("E11.9", "NULL"), "no code"),
    "words only": (with_fields(2, code={"text": "Diabetes"}), "rows have words and no code"),
    "a search for a patient": (with_fields(0, subject={"reference": "Patient?identifier=7"}), "no patient"),
    "a group": (with_fields(0, subject={"reference": "Group/7"}), "no patient"),
    "an encounter inside": (with_fields(0, encounter={"reference": "#e"}), "no visit"),
    "a parent that is not there": (with_fields(4, partOf={"reference": "Encounter/99"}), "part of one that the export does not have"),
    "a cancelled order in capitals": (with_fields(0, status="Cancelled"), "never done"),
    "a cancelled stay": (with_fields(3, status="cancelled"), "no visit"),
    "an order that was only proposed": (with_fields(0, intent="proposal"), "never done"),
    "a patient by another number": (with_fields(0, subject={"identifier": {"value": "7"}}), "no patient"),
    "a line cut off": (lambda: as_lines(resources())[:-30], "not JSON"),
    "orders of an older standard": (
        lambda: as_lines([*resources(), {"resourceType": "MedicationOrder", "id": "o"}]), "1 MedicationOrder are not read"),
    "statements beside orders": (
        lambda: as_lines([*resources(), {"resourceType": "MedicationStatement", "id": "s"}]), "1 MedicationStatement are not read"),
    "a page": (lambda: "<Bundle/>", "not JSON|no resourceType"),
}  # fmt: skip


def fhir(tmp_path, text):
    (tmp_path / "export").mkdir()
    given = text()
    (tmp_path / "export" / "all.ndjson").write_bytes(
        given if isinstance(given, bytes) else given.encode()
    )
    site, result = run_ingest(FHIR(), tmp_path / "export")
    for table in result.sites[0].tables:
        assert table.read == table.used + sum(table.dropped.values())
    return cells(site), result.sites[0]


@pytest.mark.parametrize("name", FHIR_HARMLESS)
def test_a_harmless_change_of_fhir_leaves_every_cell(tmp_path, name):
    tensor, _ = fhir(tmp_path, FHIR_HARMLESS[name])
    assert tensor == {
        ("7", "RxNorm:1191", "ICD10CM:E11.9"): 1, ("7", "RxNorm:6809", "ICD10CM:E11.9"): 1,
    }  # fmt: skip


@pytest.mark.parametrize("name", FHIR_SAID)
def test_a_harmful_change_of_fhir_is_said(tmp_path, name):
    text, words = FHIR_SAID[name]
    told = told_by(lambda: fhir(tmp_path, text)[1])
    assert any(word in line for line in told for word in words.split("|")), told


def observation(**fields):
    given = {
        "resourceType": "Observation", "id": "o", "code": {"coding": [{"system": "http://loinc.org", "code": "1-8"}]},
        "subject": {"reference": "Patient/7"}, "encounter": {"reference": "Encounter/70"},
        "valueQuantity": {"value": 9, "unit": "mmol/L"}, "referenceRange": [{"low": {"value": 1}, "high": {"value": 5}}],
    }  # fmt: skip
    return as_lines([*resources(), given | fields])


@pytest.mark.parametrize(
    ("ranges", "reason"),
    [
        ([{"high": {"value": 5}}, {"high": {"value": 20}}], "several ranges"),
        ([{"high": {"value": 5, "unit": "mg/dL"}}], "range in another unit"),
        ([{"text": "1-5"}], "no rule for abnormal"),
    ],
)
def test_a_range_that_may_be_another_decides_nothing(tmp_path, ranges, reason):
    (tmp_path / "export").mkdir()
    (tmp_path / "export" / "all.ndjson").write_text(observation(referenceRange=ranges))
    with pytest.raises(TriphenoError, match=f"1 rows: {reason}"):
        run_ingest(FHIR(), tmp_path / "export", modes=("medication", "lab"))


# ── MEDS ──────────────────────────────────────────────────────────────────────────────────────────


def meds_with(**types):
    def go(folder):
        meds_shard(folder / "data" / "0.parquet", STAY)
        table = pq.read_table(folder / "data" / "0.parquet")
        for name, change in types.items():
            table = table.set_column(table.column_names.index(name), name, change(table[name]))
        pq.write_table(table, folder / "data" / "0.parquet")

    return go


def meds_with_codes(**codes):
    def go(folder):
        meds_shard(folder / "data" / "0.parquet", STAY)
        (folder / "metadata").mkdir()
        pq.write_table(pa.table(codes), folder / "metadata" / "codes.parquet")

    return go


def other_shards(folder):
    meds_shard(folder / "data" / "0.parquet", STAY[:3])
    meds_shard(folder / "data" / "1.parquet", STAY[3:])
    table = pq.read_table(folder / "data" / "1.parquet")
    pq.write_table(
        table.set_column(0, "subject_id", pa.array(["7", "7", "8"])), folder / "data" / "1.parquet"
    )


MEDS_HARMLESS = {
    "subjects as floats": meds_with(subject_id=lambda c: c.cast(pa.float64())),
    "subjects as decimals": meds_with(subject_id=lambda c: c.cast(pa.decimal128(19, 0))),
    "subjects as text": meds_with(subject_id=lambda c: c.cast(pa.string())),
    "times in a zone": meds_with(time=lambda c: c.cast(pa.timestamp("us", "UTC"))),
    "times as text": meds_with(time=lambda c: c.cast(pa.string())),
    "times in nanoseconds": meds_with(time=lambda c: c.cast(pa.timestamp("ns"))),
    "codes as bytes": meds_with(code=lambda c: c.cast(pa.binary())),
    "codes in a dictionary": meds_with(code=lambda c: c.dictionary_encode()),
    "shards in other types": other_shards,
    "a notebook's copy": lambda f: (
        meds_with()(f), meds_shard(f / "data" / ".ipynb_checkpoints" / "0.parquet", [(7, "2020-01-02", "DRUG//Old", None)])),
    "codes without descriptions": meds_with_codes(code=["x"]),
    "codes listed twice": meds_with_codes(code=["DIAGNOSIS//ICD//10//I10"] * 2, description=["a", "b"]),
}  # fmt: skip


@pytest.mark.parametrize("name", MEDS_HARMLESS)
def test_a_harmless_change_of_meds_leaves_every_cell(tmp_path, name):
    MEDS_HARMLESS[name](tmp_path / "export")
    site, result = run_ingest(MEDS(), tmp_path / "export")
    assert cells(site) == {("7", "MEDICATION//START//Aspirin", "DIAGNOSIS//ICD//10//I10"): 1}
    shards = (tmp_path / "export" / "data").rglob("*.parquet")
    rows_of_files = sum(pq.read_metadata(s).num_rows for s in shards if "/." not in str(s))
    for table in result.sites[0].tables:  # one for each mode, of the same shards
        assert table.read == table.used + sum(table.dropped.values()) == rows_of_files


def test_meds_says_what_it_cannot_read(tmp_path):
    meds_with(code=lambda c: pa.array(range(len(c))))(tmp_path / "numbers")
    with pytest.raises(TriphenoError, match="6 rows: another kind"):
        run_ingest(MEDS(), tmp_path / "numbers")
    meds_with(time=lambda c: pa.array(["03/04/2020"] * len(c)))(tmp_path / "dates")
    with pytest.raises(TriphenoError, match="no visit"):
        run_ingest(MEDS(), tmp_path / "dates")
    meds_with()(tmp_path / "text")
    (tmp_path / "text" / "data" / "1.csv").write_text("subject_id,time,code\n")
    _, result = run_ingest(MEDS(), tmp_path / "text")
    assert "not read: data/1.csv" in result.sites[0].warnings


def test_a_meds_code_without_a_name_is_called_after_its_parent(tmp_path):
    meds_with_codes(
        code=["DIAGNOSIS//ICD//10//I10", "ICD10CM/I10"],
        description=[None, "Essential hypertension"],
        parent_codes=[["ICD10CM/I10"], None],
    )(tmp_path / "export")
    site, _ = run_ingest(MEDS(), tmp_path / "export")
    labels = pq.read_table(site / "events.parquet").to_pylist()
    assert "Essential hypertension" in {event["label"] for event in labels}


# ── cells and tensors, by both ways in ────────────────────────────────────────────────────────────

CELLS = (
    "patient,medication,diagnosis,value\n001,Aspirin,250.00,2\n1,Heparin,250,1\n2,0071,008.45,3\n"
)
COUNTED = {("Aspirin", "250.00"): 2, ("Heparin", "250"): 1, ("0071", "008.45"): 3}
TABLE = pa.table(
    {
        "patient": ["001", "1", "2"],
        "medication": ["Aspirin", "Heparin", "0071"],
        "diagnosis": ["250.00", "250", "008.45"],
        "value": [2, 1, 3],
    }
)


def in_parquet(table):
    stream = io.BytesIO()
    pq.write_table(table, stream)
    return stream.getvalue()


def other(name, values):
    return in_parquet(TABLE.set_column(TABLE.column_names.index(name), name, pa.array(values)))


CELLS_HARMLESS = {
    "as they are": CELLS.encode(),
    "Windows line ends": CELLS.replace("\n", "\r\n").encode(),
    "old Mac line ends": CELLS.replace("\n", "\r").encode(),
    "semicolons": CELLS.replace(",", ";").encode(),
    "byte-order mark": codecs.BOM_UTF8 + CELLS.encode(),
    "UTF-16": CELLS.encode("utf-16"),
    "packed under a plain name": gzip.compress(CELLS.encode()),
    "header in capitals": CELLS.replace("patient,medication,diagnosis,value", "PATIENT,MEDICATION,DIAGNOSIS,VALUE").encode(),
    "delimiter at every end": CELLS.replace("\n", ",\n").encode(),
    "blank lines": CELLS.replace("\n2,", "\n\n2,").encode(),
    "a mark without width": CELLS.replace("Aspirin", "\u200bAspirin").encode(),
    "counts with a plus": CELLS.replace(",2\n", ",+2\n").encode(),
    "codes over two lines": CELLS.replace("Aspirin", '"Aspirin\n"').encode(),
    "counts as 2.0": CELLS.replace(",2\n", ",2.0\n").encode(),
    "Parquet under a text's name": in_parquet(TABLE),
    "Parquet with blanks": other("medication", [" Aspirin", "Heparin ", "0071"]),
    "Parquet with decimals as counts": other("value", [Decimal(2), Decimal(1), Decimal(3)]),
    "Parquet with bytes as codes": other("medication", [b"Aspirin", b"Heparin", b"0071"]),
}  # fmt: skip
CELLS_REFUSED = {
    "half a count": CELLS.replace(",2\n", ",2.5\n").encode(),
    "no count": CELLS.replace(",2\n", ",0\n").encode(),
    "a count below 0": CELLS.replace(",2\n", ",-2\n").encode(),
    "a count with a comma": CELLS.replace(",2\n", ',"1,000"\n').encode(),
    "a count 2_0": CELLS.replace(",2\n", ",2_0\n").encode(),
    "a count without end": CELLS.replace(",2\n", ",inf\n").encode(),
    "a count 0x10": CELLS.replace(",2\n", ",0x10\n").encode(),
    "a count in other digits": CELLS.replace(",2\n", ",\u0662\n").encode(),
    "a mark of an old system at the end": CELLS.encode() + b"\x1a",
    "a count NaN": CELLS.replace(",2\n", ",NaN\n").encode(),
    "patient NULL": CELLS.replace("001,", "NULL,").encode(),
    "code NA": CELLS.replace("Aspirin", "NA").encode(),
    "no code": CELLS.replace("Aspirin", "").encode(),
    "a short line": CELLS.encode() + b"3,Aspirin\n",
    "a long line": CELLS.encode() + b"3,Aspirin,250,1,9\n",
    "the header once more": (CELLS + CELLS).encode(),
    "a column twice": CELLS.replace("medication,diagnosis", "medication,medication").encode(),
    "Latin-1": CELLS.replace("Aspirin", "Aspérin").encode("latin-1"),
    "a workbook": b"PK\x03\x04",
    "nothing": b"",
    "Parquet with codes as floats": other("diagnosis", [250.0, 250.0, 8.45]),
    "Parquet with codes as lists": other("medication", [["a"], ["b"], ["c"]]),
    "Parquet with patients as floats": other("patient", [1.0, 2.0, 3.0]),
    "Parquet with a code NULL": other("medication", ["NULL", "Heparin", "0071"]),
    "Parquet with yes and no": other("value", [True, True, True]),
}  # fmt: skip


def by_codes(tensor):
    names = [axis.codes for axis in tensor.axes]
    return {
        tuple(names[n][i] for n, i in enumerate(index)): int(value)
        for index, value in zip(tensor.cells.indices, tensor.cells.values, strict=True)
    }


@pytest.mark.parametrize("name", CELLS_HARMLESS)
def test_cells_are_the_same_by_both_ways_in(tmp_path, name):
    path = tmp_path / "export" / "cells.csv"
    path.parent.mkdir()
    path.write_bytes(CELLS_HARMLESS[name])
    assert by_codes(read_tensor(path)) == COUNTED
    site, _ = run_ingest(Flat(), path.parent)
    assert {key[1:]: value for key, value in cells(site).items()} == COUNTED
    assert {key[0] for key in cells(site)} == {"001", "1", "2"}


@pytest.mark.parametrize("name", CELLS_REFUSED)
def test_cells_that_are_none_are_refused_by_both_ways_in(tmp_path, name):
    path = tmp_path / "export" / "cells.csv"
    path.parent.mkdir()
    path.write_bytes(CELLS_REFUSED[name])
    with pytest.raises(TriphenoError):
        read_tensor(path)
    with pytest.raises(TriphenoError):
        run_ingest(Flat(), path.parent)


TNS = "1 1 1 2\n2 2 2 1\n3 3 3 3\n"


TNS_FORMS = {
    "as it is": TNS.encode(),
    "line ends of Windows": TNS.replace("\n", "\r\n").encode(),
    "a comment": ("# made today\n" + TNS).encode(),
    "a byte order mark": codecs.BOM_UTF8 + TNS.encode(),
    "packed": gzip.compress(TNS.encode()),
    "tabs": TNS.replace(" ", "\t").encode(),
    "two bytes a letter": TNS.encode("utf-16"),
}


@pytest.mark.parametrize("text", TNS_FORMS.values(), ids=TNS_FORMS)
def test_a_frostt_tensor_in_another_form_is_the_same(tmp_path, text):
    path = tmp_path / "cells.tns"
    path.write_bytes(text)
    tensor = read_tensor(path)
    assert tensor.cells.indices.tolist() == [[0, 0], [1, 1], [2, 2]]
    assert tensor.cells.values.tolist() == [2, 1, 3]


@pytest.mark.parametrize(
    "line", ["4 1", "-1 1 1 1", "1.5 1 1 1", "a b c d", "4,1,1,1", "4 1 1 0.5"]
)
def test_a_frostt_line_that_is_none_is_refused_by_both_ways_in(tmp_path, line):
    path = tmp_path / "cells.tns"
    path.write_text(TNS + line + "\n")
    with pytest.raises(TriphenoError):
        read_tensor(path)
    with pytest.raises(TriphenoError):
        run_ingest(Flat(), path)


EVENTS = "patient,window,mode,code\n1,1,medication,a\n1,1,diagnosis,b\n"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (EVENTS + "1,1,Medication,c\n", "differ by capitals"),
        (EVENTS + "1,,medication,c\n", "1 of 3 events have no window"),
        (EVENTS.replace("code\n", "code,code\n").replace(",a", ",a,z").replace(",b", ",b,z"), "more than once"),
        (EVENTS + "1,1\n", "more or fewer columns"),
        (EVENTS.replace("1,1,medication", "01,1,medication"), "write ids alike"),
    ],
)  # fmt: skip
def test_events_that_may_mean_something_else_are_refused(tmp_path, text, reason):
    (tmp_path / "events.csv").write_text(text)
    with pytest.raises(TriphenoError, match=reason):
        read_tensor(tmp_path / "events.csv")
