"""OMOP out of a real PostgreSQL server gives the events that the files give."""

from dataclasses import replace
from urllib.parse import urlsplit

import pyarrow.parquet as pq
import pytest
from adbc_driver_postgresql import dbapi

from kit.postgres_server import postgres_server
from kit.requirements import shared_data
from tripheno.errors import DatabaseUnreachable, MissingTable
from tripheno.records.events import CountingRule, read_events
from tripheno.records.ingest import ingest
from tripheno.records.omop import OMOP
from tripheno.records.source import IngestSettings

TABLES = ("concept", "condition_occurrence", "drug_exposure", "measurement", "person",
          "procedure_occurrence", "visit_occurrence")  # fmt: skip


@pytest.fixture(scope="module")
def server():
    data = shared_data("synthea1k-omop")
    with postgres_server() as address:
        with dbapi.connect(address) as connection:
            with connection.cursor() as cursor:
                cursor.execute("CREATE SCHEMA cdm")
                for name in TABLES:
                    table = pq.read_table(data / f"{name}.parquet")
                    cursor.adbc_ingest(name, table, mode="create", db_schema_name="cdm")
                cursor.execute(
                    "CREATE TABLE cdm.cdm_source (cdm_source_name varchar, cdm_version varchar, "
                    "vocabulary_version varchar)"
                )
                cursor.execute("INSERT INTO cdm.cdm_source VALUES ('Synthea', '5.3.1', 'v5')")
                cursor.execute(
                    "CREATE TABLE cdm.concept_ancestor (ancestor_concept_id integer, "
                    "descendant_concept_id integer)"
                )
            connection.commit()
        yield address


@pytest.mark.parametrize("window", ["visit", "person", "same-day"])
def test_the_server_gives_the_same_events_as_the_files(server, tmp_path, window):
    settings = IngestSettings(rule=CountingRule(("medication", "diagnosis"), window), schema="cdm")
    remote = ingest(OMOP(), server, tmp_path / "remote", settings)
    files = replace(settings, schema=None)
    local = ingest(OMOP(), str(shared_data("synthea1k-omop")), tmp_path / "local", files)
    one, other = (read_events(tmp_path / n / "events.parquet") for n in ("remote", "local"))
    assert one.to_pylist() == other.to_pylist()
    assert [t.dropped for t in remote.sites[0].tables] == [t.dropped for t in local.sites[0].tables]
    assert remote.sites[0].described == "OMOP CDM 5.3.1"


def test_the_schema_can_come_from_the_search_path(server, tmp_path):
    address = server + "?options=-csearch_path%3Dcdm"
    result = ingest(OMOP(), address, tmp_path / "site", IngestSettings())
    assert result.sites[0].patients > 0


def test_the_address_and_its_password_are_written_nowhere(server, tmp_path):
    settings = IngestSettings(schema="cdm")
    ingest(OMOP(), server, tmp_path / "site", settings)
    written = b"".join(p.read_bytes() for p in (tmp_path / "site").rglob("*") if p.is_file())
    assert urlsplit(server).password.encode() not in written
    assert b"pass-word" not in written


def test_a_schema_without_the_tables_is_told_apart_from_no_server(server, tmp_path):
    with pytest.raises(MissingTable, match=r"'drug_exposure'.*PostgreSQL.*no tables at all"):
        ingest(OMOP(), server, tmp_path / "site", IngestSettings(schema="public"))


def test_a_wrong_password_is_told_without_the_address(server, tmp_path):
    wrong = server.replace("a%20pass", "b%20pass")
    with pytest.raises(DatabaseUnreachable, match="the password is wrong") as caught:
        ingest(OMOP(), wrong, tmp_path / "site", IngestSettings())
    assert "word" not in str(caught.value).replace("password", "")
    assert caught.value.exit_code == 5


def test_nobody_listening_is_told(tmp_path):
    with pytest.raises(DatabaseUnreachable, match="nothing listens"):
        ingest(OMOP(), "postgresql://x:secret@127.0.0.1:1/y", tmp_path / "site", IngestSettings())


def test_numeric_and_zoned_columns_of_a_server_are_understood(server, tmp_path):

    with dbapi.connect(server) as connection:
        with connection.cursor() as cursor:
            for statement in (
                "CREATE SCHEMA IF NOT EXISTS odd",
                "CREATE TABLE odd.drug_exposure (person_id bigint, drug_concept_id integer, "
                "drug_exposure_start_date date, drug_exposure_start_datetime timestamptz)",
                "CREATE TABLE odd.measurement (person_id bigint, measurement_concept_id integer, "
                "measurement_date date, value_as_number numeric, range_low numeric, "
                "range_high numeric)",
                "INSERT INTO odd.drug_exposure VALUES (1, 7, '2020-01-02', '2020-01-01 23:30+00')",
                "INSERT INTO odd.measurement VALUES (1, 9, '2020-01-02', 7.5, 1, 5)",
            ):
                cursor.execute(statement)
        connection.commit()
    rule = CountingRule(("medication", "lab"), "same-day")
    settings = IngestSettings(rule=rule, schema="odd", timezone="Europe/Berlin")
    ingest(OMOP(), server, tmp_path / "site", settings)
    times = read_events(tmp_path / "site" / "events.parquet")["time"].to_pylist()
    assert {time.date().isoformat() for time in times} == {"2020-01-02"}  # 00:30 in Berlin
