# ruff: noqa: E501 - rows of tables read best on one line
"""Exports as strangers sent them: each was once read otherwise than it was meant, without a word.

Beside `test_metamorphic.py`, `test_hostile_exports.py` and `test_exports_of_other_systems.py`: the same
small tables, the same promise.
"""

import gzip
import json
import os
import sqlite3

import duckdb
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
from adbc_driver_postgresql import dbapi

from kit.postgres_server import postgres_server
from kit.small_exports import (
    DX,
    MAPPING,
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
from tripheno.records.alike import spellings
from tripheno.records.fhir import FHIR
from tripheno.records.flat import Flat
from tripheno.records.ingest import ingest
from tripheno.records.mapping import read_mapping
from tripheno.records.meds import MEDS
from tripheno.records.mimic import Mimic
from tripheno.records.quality import findings
from tripheno.records.source import IngestSettings
from tripheno.tensor.reading import read_tensor
from tripheno.testing.small_tables import cells, run_ingest

ROWS, CODES = MIMIC[ORDERS], MIMIC[DX]
WHOLE = {("7001", "aspirin", "ICD9CM:008.45"): 1, ("7001", "aspirin", "ICD9CM:401.9"): 1,
         ("7001", "heparin", "ICD9CM:008.45"): 1, ("7001", "heparin", "ICD9CM:401.9"): 1,
         ("7002", "metformin", "ICD9CM:250.00"): 1, ("7003", "aspirin", "ICD9CM:V15.82"): 1}  # fmt: skip


def save(folder, files):
    for name, held in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(held.encode() if isinstance(held, str) else held)
    return folder


def mimic(folder, **tables):
    """The plain tables, some of them otherwise."""
    return save(
        folder, {n: tables.get(n.split(".")[0], written(rows)) for n, rows in MIMIC.items()}
    )


# ── rows that are none, words that are nobody ─────────────────────────────────────────────────────


@pytest.mark.parametrize("row", ["who,stay,drug", "---,---,---", "Total,Total,24"])
def test_a_row_that_rules_off_or_heads_a_table_is_nobodys(tmp_path, row):
    tables = SOURCES["flat"][1]
    plain, _ = run("flat", save(tmp_path / "a", {n: written(r) for n, r in tables.items()}))
    mixed = {n: written(rows) + row.encode() + b"\n" for n, rows in tables.items()}
    tensor, coverage = run("flat", save(tmp_path / "b", mixed))
    assert tensor == plain
    assert all(
        table.dropped.get("no patient", 0) == 1
        for table in coverage.tables
        if table.mode == "medication"
    )


def test_thin_and_wide_blanks_are_blanks(tmp_path):
    thin = written(
        [ROWS[0], *([f"\u2009{r[0]}\u3000", r[1], r[2], r[3], f"{r[4]}\u202f"] for r in ROWS[1:])]
    )
    assert run("mimic", mimic(tmp_path / "export", PRESCRIPTIONS=thin))[0] == WHOLE


@pytest.mark.parametrize("packed", [
    lambda data: gzip.compress(data[:60]) + gzip.compress(data[60:]),
    lambda data: b"".join(pa.compress(d, codec="zstd", asbytes=True) for d in (data[:60], data[60:])),
])  # fmt: skip
def test_a_file_packed_in_pieces_is_read_to_its_end(tmp_path, packed):
    assert run("mimic", mimic(tmp_path / "export", PRESCRIPTIONS=packed(written(ROWS))))[0] == WHOLE


# ── files beside ──────────────────────────────────────────────────────────────────────────────────


def test_a_lock_of_a_spreadsheet_and_a_link_in_a_circle_add_nothing(tmp_path):
    folder = mimic(tmp_path / "export")
    (folder / f"~${ORDERS}").write_bytes(b"\x05Owner\0\0")
    os.symlink(folder, folder / "again")
    assert run("mimic", folder)[0] == WHOLE


def test_a_file_packed_twice_is_called_so(tmp_path):
    twice = gzip.compress(gzip.compress(written(ROWS)))
    with pytest.raises(TriphenoError, match="it holds gzip inside its compression"):
        run("mimic", mimic(tmp_path / "export", PRESCRIPTIONS=twice))


# ── codes ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("codes", "said"), [
    (["E11.9", "e11.9"], "2 codes differ by capitals, blanks or look-alike letters only: E11.9, e11.9"),
    (["E11.9", "\u041511.9"], "look-alike letters"),
    (["401.9", "\uff14\uff10\uff11.\uff19"], "look-alike letters"),
    (["E11.9", "E11 .9"], "blanks"),
    (["401.9", "4019"], "2 codes differ by points only"),
    (["250", "0250"], "2 codes differ by leading zeros only"),
    (["4019", "4019 - Hypertension"], "1 codes are another with words behind it: 4019 - Hypertension"),
    (["4019;25000"], "1 codes look like several in one field"),
    (["4019|25000"], "look like several"), (["4019, 25000"], "look like several"),
    (['["4019"]'], "look like several"), (["{4019,25000}"], "look like several"),
    (["038.9", "389", "250.0", "250.00", "vitamin b", "vitamin d", "ICD9CM:041.01", "ICD9CM:410.1"], None),
])  # fmt: skip
def test_codes_that_look_like_one_another_are_said_and_kept_apart(codes, said):
    found = "; ".join(spellings("diagnosis", codes))
    assert (said in found) if said else not found


@pytest.mark.parametrize(
    "code", ["1-Mar", "Mar-01", "2001-03-01", "01/03/2001", "1.3.2001", "TRUE", "-1", "25000.0"]
)
def test_a_code_that_a_spreadsheet_made_of_another_is_said(code):
    assert findings((), (), codes=[code]) == (f"1 codes look like no codes: {code}",)


@pytest.mark.parametrize(("written_as", "spelt"), [
    ("icd9cm", "ICD9CM"), ("ICD-10-CM", "ICD10CM"), ("rxnorm", "RxNorm"), ("OPS", "OPS"),
])  # fmt: skip
def test_a_system_is_spelt_as_other_hospitals_spell_it(tmp_path, written_as, spelt):
    path = tmp_path / "site.toml"
    path.write_text(MAPPING.replace("ICD9CM", written_as))
    assert read_mapping(path)[1].system == spelt


# ── cells ─────────────────────────────────────────────────────────────────────────────────────────

HEAD = ["patient", "medication", "diagnosis", "value"]
CELLS = [["001", "a", "x", "2"], ["1", "b", "y", "1"], ["2", "a", "y", "3"], ["2", "b", "x", "1"]]
TNS = "1 1 1 2\n2 1 2 1\n2 2 1 3\n"


def of_cells(path):
    """The same file by both doors: the counts of each patient that `simulate` and `ingest` see."""
    tensor = read_tensor(path)
    direct = sorted(
        sorted(map(int, tensor.cells.values[a:b]))
        for a, b in zip(tensor.cells.starts, tensor.cells.starts[1:], strict=False)
    )
    site, result = run_ingest(Flat(), path)
    people: dict[str, list[int]] = {}
    for (patient, *_), count in cells(site).items():
        people.setdefault(patient, []).append(count)
    return direct, sorted(map(sorted, people.values())), result.sites[0].warnings


def test_both_doors_read_a_patient_of_a_spreadsheet_as_one(tmp_path):
    rows = [HEAD, *CELLS[:3], ["2.0", *CELLS[3][1:]]]
    direct, ingested, _ = of_cells(put_cells(tmp_path / "cells.csv", rows))
    assert direct == ingested == [[1], [1, 3], [2]]


def put_cells(path, rows):
    path.write_bytes(written(rows))
    return path


@pytest.mark.parametrize("word", ["unknown", "N.A.", "Total"])
def test_no_door_takes_nobody_for_a_patient(tmp_path, word):
    path = put_cells(tmp_path / "cells.csv", [HEAD, *CELLS, [word, "a", "x", "1"]])
    with pytest.raises(TriphenoError, match="'patient' is missing in 1"):
        read_tensor(path)
    with pytest.raises(TriphenoError, match="1 cells have no patient"):
        run_ingest(Flat(), path)


def test_cells_at_the_place_of_others_are_added_and_said(tmp_path):
    direct, ingested, warnings = of_cells(
        put_cells(tmp_path / "cells.csv", [HEAD, *CELLS, *CELLS[:2]])
    )
    assert direct == ingested == [[1, 3], [2], [4]]
    assert "cells.csv: 2 cells repeat the place of another: added" in warnings


def test_capitals_in_an_ending_and_views_of_text_are_read(tmp_path):
    assert read_tensor(put_cells(tmp_path / "CELLS.CSV", [HEAD, *CELLS])).nonzeros == 4
    columns = dict(zip(HEAD, zip(*CELLS, strict=True), strict=True))
    table = pa.table({n: pa.array(v).cast(pa.string_view()) for n, v in columns.items()})
    pq.write_table(table, tmp_path / "cells.parquet")
    assert read_tensor(tmp_path / "cells.parquet").nonzeros == 4


def test_a_text_in_another_encoding_is_refused_as_that(tmp_path):
    path = tmp_path / "cells.csv"
    path.write_bytes(written([HEAD, *CELLS]).replace(b"x", b"\xe9"))
    with pytest.raises(TriphenoError, match="not UTF-8"):
        read_tensor(path)


@pytest.mark.parametrize("change", [
    lambda t: t.replace(" ", "\t"), lambda t: t.replace(" ", "  "), lambda t: t.replace("2 1 2 1", "  02 1 2 1 "),
    lambda t: "# of today\n" + t, lambda t: t.replace("1 1 1 2", "1 1 1 2 # first"),
    lambda t: t.replace("\n", "\n\n"), lambda t: t.replace("\n", "\r\n"), lambda t: "\ufeff" + t,
])  # fmt: skip
def test_both_doors_read_a_tensor_alike(tmp_path, change):
    path = tmp_path / "counts.tns"
    path.write_text(change(TNS), newline="")
    direct, ingested, _ = of_cells(path)
    assert direct == ingested == [[1, 3], [2]]


# ── databases ─────────────────────────────────────────────────────────────────────────────────────


def in_sqlite(path, kind, codes=CODES):
    with sqlite3.connect(path) as db:
        for name, rows in {**MIMIC, DX: codes}.items():
            columns = ", ".join(f"{c} {kind if c == 'icd9_code' else 'TEXT'}" for c in rows[0])
            db.execute(f"CREATE TABLE {name[:-4]} ({columns})")
            db.executemany(
                f"INSERT INTO {name[:-4]} VALUES ({', '.join('?' * len(rows[0]))})", rows[1:]
            )
    return path


@pytest.mark.parametrize(
    "kind", ["MEDIUMINT", "STRING", "LONG", "DATE", "UNSIGNED BIG INT", "CHARINT"]
)
def test_sqlite_that_made_numbers_of_codes_is_refused(tmp_path, kind):
    with pytest.raises(TriphenoError, match="holds codes as numbers"):
        run("mimic", in_sqlite(tmp_path / "db", kind))


def test_sqlite_without_types_is_judged_by_what_it_holds(tmp_path):
    assert run("mimic", in_sqlite(tmp_path / "text", ""))[0] == WHOLE
    numbers = [CODES[0], *([*r[:2], int(r[2])] for r in CODES[1:] if r[2].isdigit())]
    with pytest.raises(TriphenoError, match="holds codes as numbers"):
        run("mimic", in_sqlite(tmp_path / "numbers", "", numbers))


def test_half_a_database_is_refused_in_our_words(tmp_path):
    path = in_sqlite(tmp_path / "db", "TEXT")
    path.write_bytes(path.read_bytes()[:6000])
    with pytest.raises(TriphenoError, match="the file is damaged or cut off"):
        run("mimic", path)


def test_a_view_of_a_table_that_is_gone_is_refused_in_our_words(tmp_path):
    with duckdb.connect(str(tmp_path / "db")) as db:
        for name, rows in MIMIC.items():
            put(tmp_path / "files", {name: rows})
            db.execute(
                f"CREATE TABLE {name[:-4]} AS FROM read_csv('{tmp_path / 'files' / name}', all_varchar = true)"
            )
        db.execute(
            "ALTER TABLE prescriptions RENAME TO old; CREATE VIEW prescriptions AS FROM old; DROP TABLE old"
        )
    with pytest.raises(TriphenoError, match="what it looks at is gone"):
        run("mimic", tmp_path / "db")


@pytest.fixture(scope="module")
def server():
    with postgres_server() as address, dbapi.connect(address, autocommit=True) as connection:
        yield address, connection


PLACES = {
    "a materialised view": ("ALTER TABLE {0}.prescriptions RENAME TO p; CREATE MATERIALIZED VIEW {0}.prescriptions AS TABLE {0}.p", None),
    "infinite days": ("ALTER TABLE {0}.prescriptions ALTER startdate TYPE date USING '-infinity'::date", None),
    "two tables but for capitals": ('CREATE TABLE {0}."Prescriptions" AS SELECT * FROM {0}.prescriptions LIMIT 1', "differ by capitals only"),
    "a column twice but for capitals": ('ALTER TABLE {0}.prescriptions ADD "DRUG" text', "'DRUG' is there more than once|'drug' is there"),
    "a view that fails": ("ALTER TABLE {0}.prescriptions RENAME TO p; CREATE VIEW {0}.prescriptions AS SELECT subject_id, hadm_id, startdate, enddate, (1 / (length(drug) - length(drug)))::text AS drug FROM {0}.p", "the server answered with an error"),
}  # fmt: skip


@pytest.mark.parametrize("name", PLACES)
def test_what_a_server_has_is_read_or_refused_as_what_it_is(server, tmp_path, name):
    address, connection = server
    change, refused = PLACES[name]
    schema = f"s{list(PLACES).index(name)}"
    with connection.cursor() as cursor:
        cursor.execute(f"CREATE SCHEMA {schema}")
        for table, rows in MIMIC.items():
            cursor.adbc_ingest(
                table[:-4].lower(), as_table(rows), mode="create", db_schema_name=schema
            )
        for statement in change.format(schema).split("; "):
            cursor.execute(statement)
    settings = IngestSettings(schema=schema)
    if refused is not None:
        with pytest.raises(TriphenoError, match=refused):
            ingest(Mimic(), address, tmp_path / "site", settings)
    else:
        ingest(Mimic(), address, tmp_path / "site", settings)
        assert cells(tmp_path / "site") == WHOLE


def as_table(rows):
    text = pacsv.ConvertOptions(column_types=dict.fromkeys(rows[0], pa.string()))
    return pacsv.read_csv(pa.BufferReader(written(rows)), convert_options=text)


def test_rows_that_a_server_hides_are_said(server, tmp_path):
    address, connection = server
    with connection.cursor() as cursor:
        cursor.execute("CREATE SCHEMA hidden")
        for table, rows in MIMIC.items():
            cursor.adbc_ingest(
                table[:-4].lower(), as_table(rows), mode="create", db_schema_name="hidden"
            )
        for statement in (
            "CREATE ROLE reader LOGIN PASSWORD 'x'", "GRANT USAGE ON SCHEMA hidden TO reader",
            "GRANT SELECT ON ALL TABLES IN SCHEMA hidden TO reader",
            "ALTER TABLE hidden.prescriptions ENABLE ROW LEVEL SECURITY",
            "CREATE POLICY few ON hidden.prescriptions USING (subject_id = '7001')",
        ):  # fmt: skip
            cursor.execute(statement)
    place = address.partition("@")[2]
    result = ingest(
        Mimic(),
        f"postgresql://reader:x@{place}",
        tmp_path / "site",
        IngestSettings(schema="hidden"),
    )
    assert any("row-level security is on" in line for line in result.sites[0].warnings)


# ── FHIR and MEDS ─────────────────────────────────────────────────────────────────────────────────


def changed(change, kind="Condition"):
    found = json.loads(json.dumps(resources()))
    for resource in found:
        if resource["resourceType"] == kind:
            change(resource)
    return as_lines(found)


def with_system(system):
    return lambda condition: condition["code"]["coding"][0].update(system=system)


FHIR_SAME = {
    "a version behind the system": {"all.ndjson": changed(with_system("http://hl7.org/fhir/sid/icd-10-cm|2024"))},
    "what a bulk export says of itself": {"all.ndjson": as_lines(resources()), "manifest.json": '{"transactionTime": "2020-01-01", "output": []}'},
}  # fmt: skip


@pytest.mark.parametrize("name", FHIR_SAME)
def test_fhir_that_says_the_same_gives_the_same_tensor(tmp_path, name):
    site, _ = run_ingest(FHIR(), save(tmp_path / "export", FHIR_SAME[name]))
    assert cells(site) == {
        ("7", "RxNorm:1191", "ICD10CM:E11.9"): 1,
        ("7", "RxNorm:6809", "ICD10CM:E11.9"): 1,
    }


FHIR_SAID = {
    "a status nobody knows": (changed(lambda r: r.update(status="thought-of"), "MedicationRequest"), "1 rows have an unknown status, and count"),
    "a merged patient": (as_lines([*resources(), {"resourceType": "Patient", "id": "7", "link": [{"other": {"reference": "Patient/8"}, "type": "replaced-by"}]}]), "1 patients were replaced"),
    "two servers": (changed(lambda r: r["subject"].update(reference="https://a/Patient/7")) + changed(lambda r: r.update(id="d", subject={"reference": "https://b/fhir/Patient/7"})), "2 servers are named"),
    "one page of many": (json.dumps(bundle(resources()) | {"type": "searchset", "link": [{"relation": "next", "url": "x"}]}) + "\n", "the last page of a search is missing"),
}  # fmt: skip


@pytest.mark.parametrize("name", FHIR_SAID)
def test_fhir_that_may_mean_something_else_is_said(tmp_path, name):
    text, said = FHIR_SAID[name]
    _, result = run_ingest(FHIR(), save(tmp_path / "export", {"all.ndjson": text}))
    assert any(said in line for line in result.sites[0].warnings)


def test_an_encounter_of_another_patient_is_no_visit(tmp_path):
    stolen = changed(lambda r: r.update(subject={"reference": "Patient/8"}), "Encounter")
    with pytest.raises(TriphenoError, match="2 rows: no visit"):
        run_ingest(FHIR(), save(tmp_path / "export", {"all.ndjson": stolen}))


@pytest.mark.parametrize(("system", "code", "spelt"), [
    ("http://hl7.org/fhir/sid/icd-9-cm", "96.71", "ICD9Proc:96.71"), ("http://hl7.org/fhir/sid/icd-9-cm", "9671", "ICD9Proc:96.71"),
    ("http://www.cms.gov/Medicare/Coding/ICD10", "0DT90ZZ", "ICD10PCS:0DT90ZZ"),
])  # fmt: skip
def test_a_procedure_in_a_system_of_diagnoses_is_a_procedure(tmp_path, system, code, spelt):
    done = {"resourceType": "Procedure", "id": "p", "status": "completed", "code": {"coding": [{"system": system, "code": code}]},
            "subject": {"reference": "Patient/7"}, "encounter": {"reference": "Encounter/70"}}  # fmt: skip
    text = as_lines([*resources(), done])
    site, _ = run_ingest(
        FHIR(), save(tmp_path / "export", {"all.ndjson": text}), modes=("diagnosis", "procedure")
    )
    assert cells(site) == {("7", "ICD10CM:E11.9", spelt): 1}


def test_a_weight_at_admission_begins_no_stay(tmp_path):
    weighed = [*STAY, (7, "2020-01-02", "ADMISSION_WEIGHT//kg", 70.0)]
    meds_shard(tmp_path / "export" / "data" / "0.parquet", weighed)
    site, _ = run_ingest(MEDS(), tmp_path / "export")
    assert cells(site) == {("7", "MEDICATION//START//Aspirin", "DIAGNOSIS//ICD//10//I10"): 1}


def test_parents_that_are_no_lists_name_nothing_and_stop_nothing(tmp_path):
    meds_shard(tmp_path / "export" / "data" / "0.parquet", STAY)
    (tmp_path / "export" / "metadata").mkdir()
    codes = {
        "code": ["DIAGNOSIS//ICD//10//I10"],
        "description": ["Hypertension"],
        "parent_codes": ["x"],
    }
    pq.write_table(pa.table(codes), tmp_path / "export" / "metadata" / "codes.parquet")
    assert run_ingest(MEDS(), tmp_path / "export")[1].sites[0].patients == 1


def test_a_drug_that_no_order_names_is_called_as_the_patients_own_drugs_are(tmp_path):
    tables = {n: written(rows) for n, rows in SOURCES["eicu"][1].items()}
    nameless = tables["medication.csv"].replace(b"METFORMIN", b"")
    own = b"drugname,drughiclseqno\nGLUCOPHAGE,4763\nMETFORMIN HCL,04763\nMETFORMIN HCL,4763\nASA,1820\n"
    folder = save(
        tmp_path / "export", tables | {"medication.csv": nameless, "admissiondrug.csv": own}
    )
    tensor, _ = run("eicu", folder, drug_names="ingredient")
    assert {drug for _, drug, _ in tensor} == {"metformin", "aspirin"}
