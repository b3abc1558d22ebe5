# ruff: noqa: E501 - rows of tables read best on one line
"""Exports as SAS, Excel, R, SQL Server, HL7 and pandas write them, and folders as people leave them.

Beside `test_metamorphic.py` and `test_hostile_exports.py`: the same small tables, the same promise.
"""

import codecs
import csv
import io
import tarfile
from datetime import date

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kit.small_exports import (
    DX,
    EICU_TABLES,
    ICD10,
    MIMIC,
    OMOP_TABLES,
    ORDERS,
    RXNORM,
    SOURCES,
    STAY,
    as_lines,
    meds_shard,
    put,
    resources,
    run,
    written,
)
from tripheno.errors import TriphenoError
from tripheno.records.fhir import FHIR
from tripheno.records.flat import Flat
from tripheno.records.ingest import ingest
from tripheno.records.meds import MEDS
from tripheno.records.omop import OMOP
from tripheno.records.source import IngestSettings
from tripheno.testing.small_tables import cells, run_ingest


def changed(source, **tables):
    """The plain tables, some of them as bytes of another spelling."""
    held = {name: written(rows) for name, rows in SOURCES[source][1].items()}
    return held | {f"{name}.csv": made for name, made in tables.items()}


def save(folder, files):
    for name, held in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(held.encode() if isinstance(held, str) else held)


def column(rows, number, change):
    return written(
        [rows[0], *([*r[:number], change(r[number]), *r[number + 1 :]] for r in rows[1:])]
    )


def quoted_behind_blanks(rows):
    return "\n".join(", ".join(f'"{value}"' for value in row) for row in rows) + "\n"


def with_row_names(rows):
    return written([[n or "", *row] for n, row in enumerate(rows)], quoting=csv.QUOTE_ALL)


def packed_otherwise(data):
    return pa.compress(data, codec="zstd", asbytes=True)


ROWS, CODES = MIMIC[ORDERS], MIMIC[DX]
HARMLESS = {
    "quotation marks behind blanks": ("mimic", changed("mimic", PRESCRIPTIONS=quoted_behind_blanks(ROWS), DIAGNOSES_ICD=quoted_behind_blanks(CODES))),
    "row names of R": ("mimic", changed("mimic", PRESCRIPTIONS=with_row_names(ROWS))),
    "a header over two lines": ("mimic", changed("mimic", PRESCRIPTIONS=written(ROWS).replace(b"subject_id", b'"subject_id\n"'))),
    "a header with marks nobody sees": ("mimic", changed("mimic", PRESCRIPTIONS=written(ROWS).replace(b"hadm_id", "\u00a0hadm_id\u200b".encode()))),
    "ids as 17,00": ("mimic", changed("mimic", PRESCRIPTIONS=column(ROWS, 0, lambda v: v + ",00"))),
    "drugs in quotation marks of their own": ("mimic", changed("mimic", PRESCRIPTIONS=column(ROWS, 4, lambda v: f'"{v}"'))),
    "drugs as formulas": ("mimic", changed("mimic", PRESCRIPTIONS=column(ROWS, 4, lambda v: f'="{v}"'))),
    "ICD codes as formulas": ("mimic", changed("mimic", DIAGNOSES_ICD=column(CODES, 2, lambda v: f'="{v}"'))),
    "dates as formulas": ("mimic", changed("mimic", PRESCRIPTIONS=column(ROWS, 2, lambda v: f'="{v}"'))),
    "all packed with zstd": ("omop", {f"{name}.zst": packed_otherwise(written(rows)) for name, rows in OMOP_TABLES.items()}),
    "moments and no days, as OMOP 6 has them": ("omop", changed("omop", drug_exposure=written(OMOP_TABLES["drug_exposure.csv"]).replace(b"start_date", b"start_datetime"))),
    "a vocabulary of Athena": ("omop", changed("omop") | {"CONCEPT.csv": "concept_id\tconcept_name\tvocabulary_id\tconcept_class_id\tstandard_concept\n1112807\tAspirin \"81\"\tRxNorm\tIngredient\tS\n"}),
    "partitions of a lake": ("omop", {
        f"{name[:-4]}/year={year}/part-0.csv": written([rows[0], *part]) for name, rows in OMOP_TABLES.items()
        for year, part in ((2020, rows[1:2]), (2021, rows[2:]))}),
    "codes one below the other": ("eicu", changed("eicu", diagnosis=column(EICU_TABLES["diagnosis.csv"], 3, lambda v: v.replace(", ", "\n")))),
    "decimal commas between semicolons": ("eicu", changed("eicu", diagnosis=column(EICU_TABLES["diagnosis.csv"], 3, lambda v: v.replace(", ", "; ").replace(".", ",")))),
}  # fmt: skip


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    found = {}
    for source in SOURCES:
        folder = tmp_path_factory.mktemp(source) / "plain"
        save(folder, changed(source))
        found[source] = run(source, folder)
    return found


@pytest.mark.parametrize("name", HARMLESS)
def test_what_another_system_writes_is_the_same_tensor(tmp_path, base, name):
    source, files = HARMLESS[name]
    save(tmp_path / "export", files)
    tensor, coverage = run(source, tmp_path / "export")
    assert tensor == base[source][0]
    assert sum(t.read for t in coverage.tables) == sum(t.read for t in base[source][1].tables)


def test_blank_rows_at_a_spreadsheets_end_are_counted_and_change_nothing(tmp_path, base):
    save(tmp_path / "export", changed("mimic", PRESCRIPTIONS=written(ROWS) + b",,,,\n" * 3))
    tensor, coverage = run("mimic", tmp_path / "export")
    assert tensor == base["mimic"][0]
    assert next(t for t in coverage.tables if t.table == ORDERS).dropped == {"no patient": 3}


def test_an_id_with_a_plus_is_said_where_no_visit_would_show_it(tmp_path):
    save(
        tmp_path / "export",
        changed("mimic", PRESCRIPTIONS=written([ROWS[0], ["+7001", *ROWS[1][1:]], *ROWS[2:]])),
    )
    _, coverage = run("mimic", tmp_path / "export", window="person")
    assert any("ids are no whole numbers" in line for line in coverage.warnings)


@pytest.mark.parametrize(
    ("name", "said"),
    [("Asp\u00c3\u00a9rin", True), ("Asp\ufffdrin", True), ("Aspirin&nbsp;", False)],
)
def test_a_drug_read_in_another_encoding_is_said_among_ingredients_too(tmp_path, base, name, said):
    save(
        tmp_path / "export",
        changed("mimic", PRESCRIPTIONS=written([ROWS[0], [*ROWS[1][:4], name], *ROWS[2:]])),
    )
    tensor, coverage = run("mimic", tmp_path / "export", drug_names="ingredient")
    assert ("1 drugs' names were read in another encoding" in coverage.warnings) == said
    assert said or tensor == base["mimic"][0]


def in_a_tar(folder):
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        held = tarfile.TarInfo(ORDERS)
        held.size = len(written(ROWS))
        archive.addfile(held, io.BytesIO(written(ROWS)))
    (folder / ORDERS).write_bytes(packed.getvalue())


def only_a_database(folder):
    for path in folder.glob("*.csv"):
        path.unlink()
    duckdb.connect(str(folder / "all.duckdb")).close()


@pytest.mark.parametrize(
    ("change", "reason"),
    [(in_a_tar, "a tar archive"), (only_a_database, "is named itself, not its folder")],
)
def test_what_holds_no_table_is_called_what_it_is(tmp_path, change, reason):
    save(tmp_path / "export", changed("mimic"))
    change(tmp_path / "export")
    with pytest.raises(TriphenoError, match=reason):
        run("mimic", tmp_path / "export")


@pytest.mark.parametrize(
    "address",
    [
        "mysql://me:word@host/db",
        "mssql+pyodbc://me:word@host/db",
        "jdbc:postgresql://host/db?password=word",
        "duckdb:///x",
    ],
)
def test_an_address_nobody_reads_is_refused_without_being_shown(tmp_path, address):
    with pytest.raises(TriphenoError, match="no address that can be read") as caught:
        ingest(OMOP(), address, tmp_path / "site", IngestSettings())
    assert "word" not in str(caught.value)


@pytest.mark.parametrize("schema", [None, "cdm", "CDM"])
def test_one_schema_of_a_duckdb_file_can_be_named(tmp_path, base, schema):
    with duckdb.connect(str(tmp_path / "export")) as db:
        for place in ("cdm", "older"):
            db.execute(f"CREATE SCHEMA {place}")
        for name, rows in OMOP_TABLES.items():
            put(tmp_path / "files", {name: rows})
            db.execute(
                f"CREATE VIEW cdm.{name[:-4]} AS FROM read_csv('{tmp_path / 'files' / name}')"
            )
            db.execute(f"CREATE TABLE older.{name[:-4]} AS FROM cdm.{name[:-4]} LIMIT 1")
    if schema is None:
        with pytest.raises(TriphenoError, match="with --schema"):
            run("omop", tmp_path / "export")
    else:
        assert run("omop", tmp_path / "export", schema=schema)[0] == base["omop"][0]


def test_a_table_that_nobody_asks_for_may_stand_in_two_schemas(tmp_path, base):
    with duckdb.connect(str(tmp_path / "export")) as db:
        for name, rows in OMOP_TABLES.items():
            put(tmp_path / "files", {name: rows})
            db.execute(f"CREATE TABLE {name[:-4]} AS FROM read_csv('{tmp_path / 'files' / name}')")
        db.execute(
            "CREATE TABLE cohort (id INTEGER); CREATE SCHEMA results; CREATE TABLE results.cohort (id INTEGER)"
        )
    assert run("omop", tmp_path / "export")[0] == base["omop"][0]


# ── times ─────────────────────────────────────────────────────────────────────────────────────────

TIMES = {
    "SAS, days": ("%d%b%Y", None),
    "SAS, moments": ("%d%b%Y:10:00:00.000", None),
    "SQL Server": ("%b %d %Y 10:00AM", None),
    "SQL Server with its thousandths": ("%b  %d %Y 10:00:00:000AM", None),
    "months in full": ("%B %d, %Y", None),
    "days before months in full": ("%d. %B %Y 10:00", None),
    "Oracle with fractions": ("%d-%b-%Y 10:00:00.000000", None),
    "points with fractions": ("%d.%m.%Y 10:00:00.000", None),
    "a comma before fractions": ("%Y-%m-%d 10:00:00,123", None),
    "HL7 with an offset": ("%Y%m%d100000.000+0100", None),
    "hyphens, declared": ("%d-%m-%Y 10:00", "dmy"),
    "slashes with AM, declared": ("%m/%d/%Y 10:00AM", "mdy"),
    "slashes with fractions, declared": ("%m/%d/%Y 10:00:00.000", "mdy"),
}


def timed(form, moment="2150-01-01"):
    orders = [[*r[:2], date.fromisoformat(r[2]).strftime(form), "", r[4]] for r in ROWS[1:]]
    labs = [[r[0], r[1], "5", r[2] + " 10:00:00", "abnormal"] for r in ROWS[1:]]
    head = ["subject_id", "hadm_id", "itemid", "charttime", "flag"]
    return {ORDERS: written([ROWS[0], *orders]), "LABEVENTS.csv": written([head, *labs])}


@pytest.mark.parametrize("name", TIMES)
def test_a_time_that_another_system_writes_is_read(tmp_path, name):
    form, order = TIMES[name]
    save(tmp_path / "export", timed(form))
    tensor, _ = run(
        "mimic",
        tmp_path / "export",
        modes=("medication", "lab"),
        window="same-day",
        date_order=order,
    )
    assert len(tensor) == 4


@pytest.mark.parametrize(
    "form",
    [
        "%d.%m.%y",
        "%d-%b-%y",
        "%m/%d/%y",
        "%d-%m-%Y",
        "54789",
        "5680281600",
        "marraskuu %d, %Y",
        "%Y-%j",
        "-%Y-%m-%d",
    ],
)
def test_a_time_that_may_mean_another_is_counted_with_the_way_out(tmp_path, form):
    save(tmp_path / "export", timed(form))
    with pytest.raises(TriphenoError, match=r"4 rows: (time cannot be read|no time)") as caught:
        run("mimic", tmp_path / "export", modes=("medication", "lab"), window="same-day")
    assert "2020-03-04" in str(caught.value) or "no time" in str(caught.value)


def test_midnight_as_24_is_the_next_days_first_moment(tmp_path):
    save(tmp_path / "export", timed("%Y-%m-%d 24:00"))
    tensor, _ = run("mimic", tmp_path / "export", modes=("medication", "lab"), window="1d")
    assert len(tensor) == 4


# ── results and bounds ────────────────────────────────────────────────────────────────────────────

MEASURED = [
    "person_id",
    "measurement_concept_id",
    "measurement_date",
    "value_as_number",
    "range_low",
    "range_high",
    "visit_occurrence_id",
]
ASKED = {"modes": ("medication", "lab")}


def measured(low, high, value):
    rows = [
        MEASURED,
        ["1", "3000963", "2020-01-01", value, low, high, "11"],
        ["2", "3000963", "2020-02-01", "99", "1", "5", "21"],
    ]
    return changed("omop") | {"measurement.csv": written(rows)}


@pytest.mark.parametrize(
    ("low", "high", "value", "reason"),
    [
        ("3.5", "5.0", "3.2", None), ("3,5", "5", "3.2", "the range is no number"), (">=3.5", "5", "3.2", "the range is no number"),
        ("3.5", "5.0", "<3.2", "the result is no number"), ("3.5", "5.0", "3,2", "the result is no number"),
        ("3.5", "5.0", "1e400", "the result is no number"), ("3.5", "5.0", "inf", "the result is no number"),
        ("3.5", "5.0", "NAN", "no rule for abnormal"), ("5", "3.5", "4", "the range is empty"), ("0", "0", "4", "the range is empty"),
        ("", "", "4", "no rule for abnormal"), ("", "3.5", "4", None),
    ],
)  # fmt: skip
def test_a_result_is_judged_by_numbers_or_counted(tmp_path, low, high, value, reason):
    save(tmp_path / "export", measured(low, high, value))
    tensor, coverage = run("omop", tmp_path / "export", **ASKED)
    labs = next(t for t in coverage.tables if t.mode == "lab")
    assert labs.dropped == ({} if reason is None else {reason: 1})
    assert any(patient == "1" for patient, *_ in tensor) == (reason is None)


def test_what_pandas_writes_for_nothing_is_no_bound_and_no_result(tmp_path):
    nothing = float("nan")
    save(tmp_path / "export", changed("omop"))
    table = pa.table({
        "person_id": [1, 1, 2], "measurement_concept_id": [3000963] * 3, "measurement_date": [date(2020, 1, 1)] * 3,
        "value_as_number": [4.0, nothing, 9.0], "range_low": [nothing, 1.0, nothing], "range_high": [5.0, 5.0, 5.0],
        "visit_occurrence_id": [11, 11, 21],
    })  # fmt: skip
    pq.write_table(table, tmp_path / "export" / "measurement.parquet")
    tensor, coverage = run("omop", tmp_path / "export", **ASKED)
    labs = next(t for t in coverage.tables if t.mode == "lab")
    assert labs.dropped == {"not abnormal": 1, "no rule for abnormal": 1}
    assert {patient for patient, *_ in tensor} == {"2"}


def test_orders_that_nobody_marks_as_cancelled_are_said(tmp_path):
    rows = [row[:4] for row in EICU_TABLES["medication.csv"]]
    save(tmp_path / "export", changed("eicu", medication=written(rows)))
    _, coverage = run("eicu", tmp_path / "export")
    assert any("no column drugordercancelled" in line for line in coverage.warnings)


# ── FHIR ──────────────────────────────────────────────────────────────────────────────────────────

WHOLE = {("7", "RxNorm:1191", "ICD10CM:E11.9"): 1, ("7", "RxNorm:6809", "ICD10CM:E11.9"): 1}


def fhir(folder, files):
    save(folder, files)
    site, result = run_ingest(FHIR(), folder)
    return cells(site), result.sites[0]


def with_fields(number, **fields):
    items = resources()
    items[number] |= fields
    return as_lines(items)


def with_contained(ingredients):
    items = resources()
    del items[0]["medicationCodeableConcept"]
    mixture = {"resourceType": "Medication", "id": "x", "ingredient": ingredients}
    items[0] |= {"contained": [mixture], "medicationReference": {"reference": "#x"}}
    return as_lines(items)


def part_of(code):
    return {"itemCodeableConcept": {"coding": [{"system": RXNORM, "code": code}]}}


FHIR_HARMLESS = {
    "a part packed with zstd": {"a.ndjson": as_lines(resources()[:2]), "b.ndjson.zst": packed_otherwise(as_lines(resources()[2:]).encode())},
    "a slash behind every reference": {"a.ndjson": as_lines(resources()).replace("Patient/7", "Patient/7/")},
    "a solvent beside the drug": {"a.ndjson": with_contained([part_of("6809") | {"isActive": True}, part_of("9863") | {"isActive": False}])},
    "an empty file beside": {"a.ndjson": as_lines(resources()), "Procedure.ndjson": ""},
}  # fmt: skip


@pytest.mark.parametrize("name", FHIR_HARMLESS)
def test_fhir_as_other_servers_write_it_is_the_same_tensor(tmp_path, name):
    assert fhir(tmp_path / "export", FHIR_HARMLESS[name])[0] == WHOLE


FHIR_SAID = {
    "a part in an archive": ({"a.ndjson": as_lines(resources()), "Condition.ndjson.zip": b"PK\x03\x04"}, "not read: Condition.ndjson.zip"),
    "a part in XML": ({"a.ndjson": as_lines(resources()), "Condition2.xml": "<Bundle/>"}, "not read: Condition2.xml"),
    "an order not to give it": ({"a.ndjson": with_fields(0, doNotPerform=True)}, "never done"),
    "a plan": ({"a.ndjson": with_fields(0, intent="plan")}, "never done"),
    "what was not given": ({"a.ndjson": with_fields(1, notGiven=True)}, "never done"),
    "refuted in words": ({"a.ndjson": with_fields(2, verificationStatus={"text": "Refuted"})}, "refuted"),
    "a code without its system": ({"a.ndjson": with_fields(2, code={"coding": [{"code": "E11.9"}]})}, "rows have a code without its system"),
    "nobody behind a slash": ({"a.ndjson": as_lines(resources()).replace("Patient/7", "/")}, "no patient"),
}  # fmt: skip


@pytest.mark.parametrize("name", FHIR_SAID)
def test_what_a_server_leaves_open_is_said(tmp_path, name):
    files, words = FHIR_SAID[name]
    try:
        _, coverage = fhir(tmp_path / "export", files)
        told = [*coverage.warnings, *(reason for t in coverage.tables for reason in t.dropped)]
    except TriphenoError as fault:
        told = [str(fault)]
    assert any(words in line for line in told), told


def test_of_two_resources_with_one_id_the_same_one_counts_whatever_their_order(tmp_path):
    other = resources()[2] | {"code": {"coding": [{"system": ICD10, "code": "I10"}]}}
    one, _ = fhir(tmp_path / "one" / "export", {"a.ndjson": as_lines([*resources(), other])})
    two, _ = fhir(tmp_path / "two" / "export", {"a.ndjson": as_lines([other, *resources()])})
    assert one == two


# ── MEDS, cells ───────────────────────────────────────────────────────────────────────────────────

OLDER = [(7, "2020-01-02", "MEDICATION//START//Old", None)]
DOUBTFUL = {
    "a folder of a backup": ({"data/0.parquet": STAY, "data/backup/0.parquet": OLDER}, "a copy or an older one"),
    "a copy by its name": ({"data/0.parquet": STAY, "data/0 (1).parquet": OLDER}, "a copy or an older one"),
    "one shard twice": ({"data/0.parquet": STAY, "data/1.parquet": STAY}, "the same file"),
    "two data sets": ({"a/data/0.parquet": STAY, "b/data/0.parquet": OLDER}, "several data sets"),
}  # fmt: skip


@pytest.mark.parametrize("name", DOUBTFUL)
def test_meds_that_is_there_twice_is_refused(tmp_path, name):
    shards, reason = DOUBTFUL[name]
    for path, rows in shards.items():
        meds_shard(tmp_path / "export" / path, rows)
    with pytest.raises(TriphenoError, match=reason):
        run_ingest(MEDS(), tmp_path / "export")


def test_a_meds_data_set_one_folder_below_is_found(tmp_path):
    meds_shard(tmp_path / "export" / "cohort" / "data" / "train" / "0.parquet", STAY)
    site, _ = run_ingest(MEDS(), tmp_path / "export")
    assert cells(site) == {("7", "MEDICATION//START//Aspirin", "DIAGNOSIS//ICD//10//I10"): 1}


def test_of_two_visit_columns_the_report_says_which_was_read(tmp_path):
    ids = {"hadm_id": pa.array([1] * 6), "visit_id": pa.array([9] * 6)}
    meds_shard(tmp_path / "export" / "data" / "0.parquet", STAY, **ids)
    _, result = run_ingest(MEDS(), tmp_path / "export")
    assert "data: 'hadm_id' is read, not visit_id" in result.sites[0].warnings


def test_a_meds_code_that_names_nothing_has_words_for_its_name(tmp_path):
    stay = [(who, time, code.replace("Aspirin", "UNK"), value) for who, time, code, value in STAY]
    meds_shard(tmp_path / "export" / "data" / "0.parquet", stay)
    site, _ = run_ingest(MEDS(), tmp_path / "export")
    labels = {
        row["code"]: row["label"] for row in pq.read_table(site / "events.parquet").to_pylist()
    }
    assert labels["MEDICATION//START//UNK"] == "not named in the records"


COUNTED = "patient,medication,diagnosis,value\n1,a,x,2\n2,b,y,3\n"
OTHER = COUNTED.replace("1,a", "9,a")


def test_tables_of_cells_are_read_together_by_number_and_refused_by_other_names(tmp_path):
    save(
        tmp_path / "years",
        {"cells_2020.csv": COUNTED, "cells_2021.csv": OTHER, "notes.csv": "a,b\n1,2\n"},
    )
    site, result = run_ingest(Flat(), tmp_path / "years")
    assert {patient for patient, *_ in cells(site)} == {"1", "2", "9"}
    assert result.sites[0].tables[0].read == 4
    save(tmp_path / "wards", {"north.csv": COUNTED, "south.csv": OTHER})
    with pytest.raises(TriphenoError, match="2 tables hold cells: north, south"):
        run_ingest(Flat(), tmp_path / "wards")
    save(tmp_path / "old", {"cells.csv": COUNTED, "cells_old.csv": OTHER})
    with pytest.raises(TriphenoError, match="a part, a copy or an older one"):
        run_ingest(Flat(), tmp_path / "old")


def test_cells_added_over_a_column_that_was_not_asked_for_are_said(tmp_path):
    wide = (
        codecs.BOM_UTF8
        + b"patient,medication,diagnosis,lab,value\n1,a,x,k,2\n1,a,x,l,2\n2,b,y,k,3\n"
    )
    save(tmp_path / "export", {"cells.csv": wide})
    site, result = run_ingest(Flat(), tmp_path / "export")
    assert cells(site)["1", "a", "x"] == 4
    assert "cells.csv: cells are added over lab" in result.sites[0].warnings


def test_a_count_that_no_tensor_holds_is_refused_as_that(tmp_path):
    save(tmp_path / "export", {"cells.csv": COUNTED.replace(",2\n", ",1099511627776\n")})
    with pytest.raises(TriphenoError, match="whole counts from 1 to"):
        run_ingest(Flat(), tmp_path / "export")


DEATHS = {
    "a table of deaths": ({"death.csv": "person_id\n1\n"}, "", {"1": True, "2": False}),
    "deaths beside the person, as OMOP 6 has them": (
        {},
        ",death_datetime",
        {"1": True, "2": False},
    ),
    "neither": ({}, "", {"1": None, "2": None}),
}


@pytest.mark.parametrize("name", DEATHS)
def test_who_died_is_known_where_somebody_wrote_it_down(tmp_path, name):
    files, head, died = DEATHS[name]
    more = (",2020-05-01 10:00", ",") if head else ("", "")
    people = f"person_id,year_of_birth{head}\n1,1950{more[0]}\n2,1960{more[1]}\n"
    save(tmp_path / "export", changed("omop") | {"person.csv": people} | files)
    site, _ = run_ingest(OMOP(), tmp_path / "export")
    keys = pq.read_table(site / "local" / "patients.parquet").to_pylist()
    held = pq.read_table(site / "local" / "attributes.parquet").to_pylist()
    spelt = {row["patient"]: str(row["key"]) for row in keys}
    assert {spelt[row["patient"]]: row["died"] for row in held} == died
