# ruff: noqa: E501 - rows of tables read best on one line
"""Whatever an export looks like: the same tensor cell by cell, or a refusal or a count that says why.

Harmless changes must not change a cell. Harmful ones must be refused with the true reason, or counted
in the report. In every variant, used and dropped rows are all rows of the file.
"""

import codecs
import csv
import gzip
import io
import json
import random
import sqlite3

import duckdb
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

from kit.small_exports import (
    DX,
    MIMIC,
    ORDERS,
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
from tripheno.records.meds import MEDS
from tripheno.testing.small_tables import cells, run_ingest


def mixed_ends(rows):
    lines = written(rows).splitlines()
    return b"".join(line + (b"\r\n" if n % 2 else b"\n") for n, line in enumerate(lines))


def shuffled(rows):
    return [rows[0], *random.Random(1).sample(rows[1:], len(rows) - 1)]


SPELLINGS = {
    "packed under a plain name": lambda rows: gzip.compress(written(rows)),
    "byte-order mark": lambda rows: codecs.BOM_UTF8 + written(rows),
    "byte-order mark inside": lambda rows: written(rows).replace(b"\n", b"\n\xef\xbb\xbf", 1),
    "UTF-16": lambda rows: written(rows).decode().encode("utf-16"),
    "Windows line ends": lambda rows: written(rows, end="\r\n"),
    "old Mac line ends": lambda rows: written(rows, end="\r"),
    "mixed line ends": mixed_ends,
    "semicolons": lambda rows: written(rows, ";"),
    "tabs": lambda rows: written(rows, "\t"),
    "bars": lambda rows: written(rows, "|"),
    "everything quoted": lambda rows: written(rows, quoting=csv.QUOTE_ALL),
    "header in capitals": lambda rows: written([[c.upper() for c in rows[0]], *rows[1:]]),
    "columns the other way round": lambda rows: written([row[::-1] for row in rows]),
    "rows in another order": lambda rows: written(shuffled(rows)),
    "one more column": lambda rows: written([[*row, "x" if n else "extra"] for n, row in enumerate(rows)]),
    "blanks around ids": lambda rows: written([rows[0], *([f" {r[0]} ", *r[1:]] for r in rows[1:])]),
    "no end of the last line": lambda rows: written(rows).rstrip(b"\n"),
}  # fmt: skip


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """The tensor and the number of rows of every source's plain export."""
    found = {}
    for source, (_, tables) in SOURCES.items():
        folder = tmp_path_factory.mktemp(source) / "plain"
        put(folder, tables)
        tensor, coverage = run(source, folder)
        found[source] = tensor, {t.table: t.read for t in coverage.tables}
    return found


def often(*sources):
    """These sources in every run, the others in the slow grid."""
    return [
        pytest.param(name, marks=() if name in sources else pytest.mark.verify) for name in SOURCES
    ]


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("source", often("mimic"))
def test_another_spelling_gives_the_same_tensor(tmp_path, base, source, spelling):
    put(tmp_path / "export", SOURCES[source][1], SPELLINGS[spelling])
    tensor, coverage = run(source, tmp_path / "export")
    assert tensor == base[source][0]
    assert {t.table: t.read for t in coverage.tables} == base[source][1]


def in_years(folder, tables):
    for name, (head, *rows) in tables.items():
        put(folder / "2020", {name: [head, *rows[:1]]})
        put(folder / "2021", {name: [head, *rows[1:]]})


def as_numbered_files(folder, tables):
    for name, (head, *rows) in tables.items():
        stem = name.removesuffix(".csv")
        put(folder, {f"{stem}_1.csv": [head, *rows[:1]], f"{stem}_2.csv": [head, *rows[1:]]})


def as_parquet(folder, tables):
    folder.mkdir()
    for name, (head, *rows) in tables.items():
        columns = dict(zip(head, map(list, zip(*rows, strict=True)), strict=True))
        pq.write_table(pa.table(columns), folder / name.replace(".csv", ".parquet"))


def as_sqlite(folder, tables):
    with sqlite3.connect(folder) as db:
        for name, (head, *rows) in tables.items():
            stem = name.removesuffix(".csv")
            db.execute(f"CREATE TABLE {stem} ({', '.join(f'{c} TEXT' for c in head)})")
            db.executemany(f"INSERT INTO {stem} VALUES ({', '.join('?' * len(head))})", rows)
    db.close()


def as_duckdb(folder, tables):
    with duckdb.connect(str(folder)) as db:
        for name, rows in tables.items():
            table = pacsv.read_csv(
                io.BytesIO(written(rows)),
                convert_options=pacsv.ConvertOptions(
                    column_types=dict.fromkeys(rows[0], pa.string())
                ),
            )
            db.register("given", table)
            db.execute(f"CREATE TABLE {name.removesuffix('.csv')} AS FROM given")


def every_row_twice(folder, tables):
    put(folder, {name: [head, *rows, *rows] for name, (head, *rows) in tables.items()})


LAYOUTS = {
    "a folder per year": in_years,
    "numbered files": as_numbered_files,
    "Parquet": as_parquet,
    "an SQLite file": as_sqlite,
    "a DuckDB file": as_duckdb,
    "every row twice": every_row_twice,
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("source", often("mimic", "flat"))
def test_another_layout_gives_the_same_tensor(tmp_path, base, source, layout):
    LAYOUTS[layout](tmp_path / "export", SOURCES[source][1])
    tensor, coverage = run(source, tmp_path / "export")
    assert tensor == base[source][0]
    twice = 2 if layout == "every row twice" else 1
    assert sum(t.read for t in coverage.tables) == twice * sum(base[source][1].values())


def changed(source, table, change):
    tables = {name: [list(row) for row in rows] for name, rows in SOURCES[source][1].items()}
    change(tables[table])
    return tables


def field(row, column, value):
    def change(rows):
        rows[row][column] = value

    return change


def more(*row):
    return lambda rows: rows.append(list(row))


COUNTED = {
    "patient NULL": ("mimic", ORDERS, more("NULL", "10", "2150-01-01", "", "X"), "no patient"),
    "patient NA": ("mimic", ORDERS, more("NA", "10", "2150-01-01", "", "X"), "no patient"),
    "drug None": ("mimic", ORDERS, more("7001", "10", "2150-01-01", "", "None"), "no code"),
    "drug backslash N": ("mimic", ORDERS, more("7001", "10", "2150-01-01", "", "\\N"), "no code"),
    "drug blank": ("mimic", ORDERS, more("7001", "10", "2150-01-01", "", "  "), "no code"),
    "visit NULL": ("mimic", ORDERS, more("7001", "NULL", "2150-01-01", "", "X"), "no visit"),
    "code without its zeros": ("mimic", DX, more("7001", "10", "8.45"), "not an ICD-9 code"),
    "ICD-10 among ICD-9": ("mimic", DX, more("7001", "10", "I10"), "not an ICD-9 code"),
    "words for a code": ("mimic", DX, more("7001", "10", "diabetes"), "not an ICD-9 code"),
    "order cancelled yes": (
        "eicu", "medication.csv", more("80", "5", "X", "9", "yes"), "cancelled order"),
    "order cancelled True": (
        "eicu", "medication.csv", more("80", "5", "X", "9", "True"), "cancelled order"),
    "order cancelled one": (
        "eicu", "medication.csv", more("80", "5", "X", "9", "1"), "cancelled order"),
    "order cancelled perhaps": (
        "eicu", "medication.csv", more("80", "5", "X", "9", "perhaps"), "unknown flag"),
    "stay of nobody": (
        "eicu", "diagnosis.csv", more("99", "5", "a", "401.9"), "stay not in patient table"),
    "words in eICU's field": ("eicu", "diagnosis.csv", more("80", "5", "a", "high"), "not an ICD code"),
    "concept 0": ("omop", "drug_exposure.csv", more("1", "0", "2020-01-01", "11"), "concept 0"),
    "visit of nobody": ("omop", "drug_exposure.csv", more("1", "7", "2020-01-01", "99"), "no visit"),
    "patient question mark": ("flat", "orders.csv", more("?", "a1", "X"), "no patient"),
    "ICD code of another form": ("flat", "problems.csv", more("2", "c1", "8"), "not an ICD-9 code"),
}  # fmt: skip


@pytest.mark.parametrize("name", COUNTED)
def test_a_row_that_cannot_be_used_is_counted_and_changes_nothing(tmp_path, base, name):
    source, table, change, reason = COUNTED[name]
    put(tmp_path / "export", changed(source, table, change))
    tensor, coverage = run(source, tmp_path / "export")
    assert tensor == base[source][0]
    found = next(t for t in coverage.tables if t.table == table)
    assert found.dropped.get(reason) == 1 + base_dropped(source, reason)
    assert found.read == base[source][1][table] + 1


def base_dropped(source, reason):
    return 1 if (source, reason) == ("eicu", "cancelled order") else 0


def beside(name, data=b"x,y\n1,2\n"):
    def change(folder):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(data)

    return change


def doubled(name):
    return beside(name, written(MIMIC[ORDERS]))


def rewritten(name, change):
    return lambda folder: (folder / name).write_bytes(change((folder / name).read_bytes()))


def icd_as_numbers(folder):
    (folder / DX).unlink()
    table = pa.table({"subject_id": [7001], "hadm_id": [10], "icd9_code": [845]})
    pq.write_table(table, folder / "DIAGNOSES_ICD.parquet")


REFUSED = {
    "a backup folder": (doubled("backup/PRESCRIPTIONS.csv"), "more than once"),
    "a packed copy": (beside("PRESCRIPTIONS.csv.gz", gzip.compress(b"a\n")), "another form"),
    "a Parquet copy": (beside("PRESCRIPTIONS.parquet", b"PAR1"), "another form"),
    "an old copy": (doubled("PRESCRIPTIONS_old.csv"), "a part, a copy or an older one"),
    "a second numbered file": (doubled("PRESCRIPTIONS_2.csv"), "a part, a copy or an older one"),
    "a workbook under its name": (rewritten(ORDERS, lambda b: b"PK\x03\x04" + b), "Excel"),
    "bzip2 under its name": (rewritten(ORDERS, lambda b: b"BZh9" + b), "bzip2"),
    "Latin-1 undeclared": (rewritten(ORDERS, lambda b: b.replace(b"Asp", b"\xe9sp")), "not UTF-8"),
    "UTF-16 without a mark": (
        rewritten(ORDERS, lambda b: b.decode().encode("utf-16-le")), "UTF-16 without"),
    "ICD codes as numbers": (icd_as_numbers, "export the column as text"),
    "a short line": (rewritten(ORDERS, lambda b: b + b"7001,10\n"), "fewer columns"),
    "a packed file cut off": (rewritten(ORDERS, lambda b: gzip.compress(b)[:-9]), "cut off"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_doubtful_is_refused_with_the_true_reason(tmp_path, name):
    change, reason = REFUSED[name]
    put(tmp_path / "export", MIMIC)
    change(tmp_path / "export")
    with pytest.raises(TriphenoError, match=reason) as caught:
        run("mimic", tmp_path / "export")
    assert "7001" not in str(caught.value)


def test_latin_one_is_read_when_it_is_declared(tmp_path):
    put(tmp_path / "export", MIMIC)
    rewritten(ORDERS, lambda b: b.replace(b"Aspirin", b"Asp\xe9rin"))(tmp_path / "export")
    tensor, _ = run("mimic", tmp_path / "export", encoding="latin-1")
    assert ("7001", "aspérin", "ICD9CM:401.9") in tensor


DATES = {
    "digits only": ("%Y%m%d", None),
    "slashes, year first": ("%Y/%m/%d", None),
    "points": ("%d.%m.%Y", None),
    "month by name": ("%d-%b-%Y", None),
    "day first, declared": ("%d/%m/%Y", "dmy"),
    "month first, declared": ("%m/%d/%Y", "mdy"),
}


def dated(form):
    from datetime import date

    rows = [[*r[:2], date.fromisoformat(r[2]).strftime(form), "", r[4]] for r in MIMIC[ORDERS][1:]]
    labs = [[r[0], r[1], "5", r[2], "ABNORMAL"] for r in rows]
    head = ["subject_id", "hadm_id", "itemid", "charttime", "flag"]
    return {ORDERS: [MIMIC[ORDERS][0], *rows], "LABEVENTS.csv": [head, *labs]}


@pytest.mark.parametrize("name", DATES)
def test_a_date_that_means_one_thing_is_read(tmp_path, name):
    form, order = DATES[name]
    modes = ("medication", "lab")
    put(tmp_path / "iso", dated("%Y-%m-%d"))
    put(tmp_path / "export", dated(form))
    one, _ = run("mimic", tmp_path / "iso", modes=modes, window="same-day")
    other, _ = run("mimic", tmp_path / "export", modes=modes, window="same-day", date_order=order)
    assert one == other
    assert len(one) == 4


def test_a_date_that_could_mean_two_things_is_counted_apart_from_missing_ones(tmp_path):
    put(tmp_path / "export", dated("%d/%m/%Y"))
    with pytest.raises(TriphenoError, match="4 rows: time cannot be read"):
        run("mimic", tmp_path / "export", modes=("medication", "lab"), window="same-day")


def test_an_unknown_flag_is_named(tmp_path):
    tables = dated("%Y-%m-%d")
    tables["LABEVENTS.csv"].append(["7001", "10", "5", "2150-01-01", "HIGH"])
    put(tmp_path / "export", tables)
    _, coverage = run("mimic", tmp_path / "export", modes=("medication", "lab"))
    assert "LABEVENTS.csv → lab: 1 rows have an unknown flag HIGH" in coverage.warnings


def test_keys_that_repeat_are_counted_and_keys_that_contradict_are_refused(tmp_path, base):
    again = changed("omop", "visit_occurrence.csv", more("11", "1"))
    put(tmp_path / "again", again)
    tensor, coverage = run("omop", tmp_path / "again")
    assert tensor == base["omop"][0]
    assert "visit_occurrence.csv: 1 rows repeat another, used once" in coverage.warnings
    put(tmp_path / "other", changed("omop", "visit_occurrence.csv", more("11", "2")))
    with pytest.raises(TriphenoError, match="1 rows contradict another"):
        run("omop", tmp_path / "other")


def test_several_codes_in_one_field_are_split_and_bad_ones_counted(tmp_path):
    put(tmp_path / "export", changed("mimic", DX, field(1, 2, "4019; 25000, ?")))
    tensor, coverage = run("mimic", tmp_path / "export")
    assert {code for who, _, code in tensor if who == "7001"} == {
        "ICD9CM:401.9", "ICD9CM:250.00", "ICD9CM:008.45",
    }  # fmt: skip
    table = next(t for t in coverage.tables if t.table == DX)
    assert (table.read, table.used, table.further) == (4, 4, {"not an ICD-9 code": 1})


def test_strict_refuses_what_the_gate_finds(tmp_path):
    put(tmp_path / "export", changed("mimic", DX, more("7001", "10", "8.45")))
    with pytest.raises(TriphenoError, match=r"TRIP-E319.*1 rows dropped: not an ICD-9 code"):
        run("mimic", tmp_path / "export", strict=True)


# ── FHIR and MEDS have no columns to shuffle: their own ways of writing the same ──────────────────


def r5(items):
    for item in items:
        if "medicationCodeableConcept" in item:
            item["medication"] = {"concept": item.pop("medicationCodeableConcept")}
        if "context" in item:
            item["encounter"] = item.pop("context")
    return items


def contained(items):
    inner = {
        "resourceType": "Medication",
        "id": "x",
        "code": items[0].pop("medicationCodeableConcept"),
    }
    items[0] |= {"contained": [inner], "medicationReference": {"reference": "#x"}}
    return items


def without_ids(items):
    entries = [{"fullUrl": f"urn:uuid:{i.pop('id')}", "resource": i} for i in items]
    return json.dumps({"resourceType": "Bundle", "entry": entries})


FHIR_FORMS = {
    "one mixed file": ("all.ndjson", lambda: as_lines(resources())),
    "blank lines": ("all.ndjson", lambda: as_lines(resources()).replace("\n", "\n\n")),
    "an array": ("all.json", lambda: json.dumps(resources(), indent=1)),
    "a Bundle": ("all.json", lambda: json.dumps(bundle(resources()))),
    "Bundles by line": ("all.ndjson", lambda: as_lines([bundle(resources()[:2]), bundle(resources()[2:])])),
    "ids in the Bundle only": ("all.json", lambda: without_ids(resources())),
    "R5 names": ("all.ndjson", lambda: as_lines(r5(resources()))),
    "contained medication": ("all.ndjson", lambda: as_lines(contained(resources()))),
    "another order": ("all.ndjson", lambda: as_lines(resources()[::-1])),
    "every resource twice": ("all.ndjson", lambda: as_lines(resources() * 2)),
    "a resource nobody asked for": (
        "all.ndjson", lambda: as_lines([*resources(), {"resourceType": "Organization", "id": "o"}])),
}  # fmt: skip


@pytest.mark.parametrize("form", FHIR_FORMS)
def test_fhir_in_another_form_gives_the_same_tensor(tmp_path, form):
    name, text = FHIR_FORMS[form]
    (tmp_path / "export").mkdir()
    (tmp_path / "export" / name).write_text(text())
    site, result = run_ingest(FHIR(), tmp_path / "export")
    assert cells(site) == {
        ("7", "RxNorm:1191", "ICD10CM:E11.9"): 1, ("7", "RxNorm:6809", "ICD10CM:E11.9"): 1,
    }  # fmt: skip
    for table in result.sites[0].tables:
        assert table.read == table.used + sum(table.dropped.values())


MEDS_FORMS = {
    "one shard": {"data/0.parquet": STAY},
    "train and held out": {"data/train/0.parquet": STAY[:3], "data/held_out/0.parquet": STAY[3:]},
    "another order": {"data/train/0.parquet": STAY[::-1]},
    "every row twice": {"data/train/0.parquet": STAY * 2},
}


@pytest.mark.parametrize("form", MEDS_FORMS)
def test_meds_in_another_form_gives_the_same_tensor(tmp_path, form):
    for name, rows in MEDS_FORMS[form].items():
        meds_shard(tmp_path / "export" / name, rows)
    site, result = run_ingest(MEDS(), tmp_path / "export")
    assert cells(site) == {("7", "MEDICATION//START//Aspirin", "DIAGNOSIS//ICD//10//I10"): 1}
    orders = next(t for t in result.sites[0].tables if t.mode == "medication")
    times = 2 if form == "every row twice" else 1
    assert (orders.read, orders.used) == (6 * times, times)
    assert orders.dropped == {"another kind": 4 * times, "no visit": times}


def test_meds_takes_its_visits_from_a_column_where_there_is_one(tmp_path):
    meds_shard(tmp_path / "export" / "data" / "0.parquet", STAY, hadm_id=pa.array([1] * 6))
    site, _ = run_ingest(MEDS(), tmp_path / "export")
    assert {drug for _, drug, _ in cells(site)} == {
        "MEDICATION//START//Aspirin", "MEDICATION//START//Heparin",
    }  # fmt: skip
