"""OMOP cut down by a warehouse's own engine gives the site that the whole tables give."""

import duckdb
import pytest

from tripheno.errors import SettingsError
from tripheno.records import omop, warehouse
from tripheno.testing.small_tables import run_ingest

PEOPLE, VISITS = range(1, 31), range(101, 161)
ROWS = {
    "person": [f"{p}, {1940 + p}, {8507 + 25 * (p % 2)}" for p in PEOPLE],
    "death": ["3"],
    "visit_occurrence": [f"{v}, {1 + v % 30}" for v in VISITS],
    "concept": [
        "1112807, 'aspirin', 'RxNorm', 'Ingredient', 'S'",
        "19059056, 'aspirin 81 MG', 'RxNorm', 'Clinical Drug', 'S'",
        "320128, 'hypertension', 'SNOMED', 'Disorder', 'S'",
        "999, 'used by nobody', 'SNOMED', 'Disorder', 'S'",
    ],
    "concept_ancestor": ["1112807, 19059056", "1112807, 888"],
    "cdm_source": ["'Town', '5.4', 'v5.0'"],
    "drug_exposure": [
        f"{1 + v % 30}, {(19059056, 700, 0)[v % 3]}, DATE '2020-01-05' + {v}, NULL, NULL, NULL, "
        f"{v if v % 7 else 'NULL'}"
        for v in reversed(VISITS)
    ],
    "condition_occurrence": [
        f"{1 + v % 30}, {(320128, 201826)[v % 2]}, NULL, TIMESTAMP '2020-01-05 10:00', {v}"
        for v in VISITS
    ],
    "procedure_occurrence": ["12, 4301351, DATE '2020-01-05', NULL, 101"],
    "measurement": ["12, 3004410, DATE '2020-01-05', NULL, 9.5, 4328749, 4.0, 6.0, 101"],
}
TYPES = {"time": "TIMESTAMP", "text": "VARCHAR", "offset": "DOUBLE"}


@pytest.fixture
def cdm(tmp_path):
    """A warehouse with every table that the common data model has."""
    with duckdb.connect(tmp_path / "house.duckdb") as there:
        there.execute("CREATE SCHEMA cdm")
        for need in warehouse.TABLES:
            table = need.names[0]
            columns = ", ".join(
                f"{column.names[0]} {TYPES.get(column.kind.rstrip('?'), 'BIGINT')}"
                for column in need.columns
                if column.names[0] != warehouse.OPTIONAL.get(table)
            )
            there.execute(f"CREATE TABLE cdm.{table} ({columns})")
            for row in ROWS[table]:
                there.execute(f"INSERT INTO cdm.{table} VALUES ({row})")
    return tmp_path / "house.duckdb"


def test_the_cut_tables_give_the_site_of_the_whole_ones(cdm, tmp_path):
    cut = tmp_path / "cut"
    cut.mkdir()
    with duckdb.connect(cdm, read_only=True) as there:
        for statement in warehouse.statements("duckdb", "cdm", str(cut)):
            there.execute(statement)
        (concepts,) = there.execute(f"SELECT count(*) FROM '{cut}/concept.parquet'").fetchone()
    assert concepts == 3
    modes = tuple(omop.NEEDS)
    ways = [run_ingest(omop.OMOP(), path, modes, "visit", schema=schema)
            for path, schema in ((cdm, "cdm"), (cut, None))]  # fmt: skip
    (whole, (told,)), (mine, (mine_told,)) = ((site, result.sites) for site, result in ways)
    assert (whole / "events.parquet").read_bytes() == (mine / "events.parquet").read_bytes()
    assert [(t.mode, t.read, t.used, t.dropped, t.visits) for t in told.tables] == [
        (t.mode, t.read, t.used, t.dropped, t.visits) for t in mine_told.tables
    ]


def test_an_engine_nobody_wrote_for_is_refused():
    with pytest.raises(SettingsError, match="no engine"):
        warehouse.statements("abacus", "cdm", "out")
