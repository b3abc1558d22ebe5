"""The parts that ingest is made of, each asked by itself."""

from __future__ import annotations

import gzip

import numpy as np
import pytest

from tripheno.errors import (
    BadReferenceRanges,
    DoubtfulTable,
    MissingExtra,
    OutputExists,
    SettingsError,
    UnreadableTable,
)
from tripheno.lab.synthetic.codes import code_list, popular
from tripheno.lab.synthetic.network import SyntheticSettings
from tripheno.records.catalog import Catalog
from tripheno.records.cells import cells_in_tns, is_tns
from tripheno.records.coverage import TableCoverage, TensorFacts
from tripheno.records.databases import database_origin, is_address
from tripheno.records.duck import Workbench
from tripheno.records.origins import FolderOrigin
from tripheno.records.placing import _without_comments
from tripheno.records.ranges import load_ranges
from tripheno.records.site_folder import private_folder
from tripheno.records.source import IngestSettings
from tripheno.records.tables import Tables, canonical, cleaned
from tripheno.records.textfile import are_names, header_of, kind_of


@pytest.fixture
def bench(tmp_path):
    folder = tmp_path / "bench"
    folder.mkdir()
    with Workbench(folder, memory="200MB") as bench:
        yield bench


def test_shares_of_rows_are_of_the_rows_that_were_read():
    table = TableCoverage(
        "orders", "medication", 8, 6, {"code says nothing": 2}, {"joined by date": 2}, {}
    )
    assert table.share_without_visit == 0.25
    assert TableCoverage("orders", "medication", 0, 0, {}, {}, {}).share_without_visit == 0.0
    assert TensorFacts((10, 5, 2), 25).density == 0.25


def test_a_frostt_tensor_has_a_column_for_every_mode_and_the_count(bench, tmp_path):
    path = tmp_path / "cells.tns.gz"
    with gzip.open(path, "wt") as stream:
        stream.write("1 2 3 4\n")
    assert is_tns(path)
    assert cells_in_tns(bench, path, IngestSettings()).modes == ("held[2]", "held[3]")
    with gzip.open(path, "wt") as stream:
        stream.write("1 2 4\n")
    with pytest.raises(SettingsError, match="1 feature modes"):
        cells_in_tns(bench, path, IngestSettings())


def test_numbered_files_and_parts_in_a_folder_are_one_table(bench, tmp_path):
    home = tmp_path / "tables"
    (home / "visits").mkdir(parents=True)
    for name in ("orders_1.csv", "orders_2.csv", "visits/part-0.csv", "visits/part-1.csv"):
        (home / name).write_text(f"a,b\n1,{name}\n")
    origin = FolderOrigin(bench, home)
    assert {"orders", "visits"} <= set(origin.names())
    assert Tables(bench, origin).has("visits")
    assert not Tables(bench, origin).has("labs")
    assert Tables(bench, origin).columns("orders") == {"a", "b"}


def test_an_address_names_its_driver(bench):
    assert is_address("postgresql://host/base")
    assert is_address("sqlite:base.db")
    assert not is_address("/data/postgresql")
    with pytest.raises(MissingExtra, match="adbc-driver-snowflake"):
        database_origin(bench, "snowflake://somewhere", None)


def test_what_cannot_be_read_in_a_column_is_null_or_minus_infinity(bench):
    bench.run("CREATE TABLE t AS SELECT unnest(['7', 'x', 'NULL', ' ']) AS v")
    number, offset = (
        f"SELECT {canonical('v', kind, 'VARCHAR')} "
        f"FROM {cleaned('t', {'v': (kind, 'VARCHAR')}, ('NULL', ''))}"
        for kind in ("number", "offset")
    )
    assert sorted(bench.rows(number), key=str) == [
        (7.0,), (None,), (None,), (None,),
    ]  # fmt: skip
    found = [row[0] for row in bench.rows(offset)]
    assert found.count(None) == 2
    assert -np.inf in found


def test_a_parameter_that_only_a_comment_names_is_not_asked_for():
    assert "$by" not in _without_comments("SELECT 1 -- as $by says\nFROM rows")
    assert "$by" in _without_comments("SELECT $by -- the hospital")


def test_reference_ranges_that_contradict_each_other_are_refused(bench, tmp_path):
    file = tmp_path / "ranges.csv"
    file.write_text("code,low,high\n1,2,3\n1,4,5\n")
    with pytest.raises(BadReferenceRanges, match="1 tests have two ranges"):
        load_ranges(bench, file, tmp_path)


def test_a_hospital_s_folder_is_its_owner_s_alone_and_never_taken_from_others(tmp_path):
    local = private_folder(tmp_path / "site")
    assert local.stat().st_mode & 0o077 == 0
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.tex").write_text("mine")
    with pytest.raises(OutputExists):
        private_folder(tmp_path / "other")


def test_a_header_has_the_delimiter_that_gives_most_columns(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("a;b,x;c\n1;2;3\n")
    assert header_of(path).columns == ("a", "b,x", "c")
    assert kind_of(path) == "text"
    assert are_names(("patient", "code"))
    assert not are_names(("17", "code"))
    path.write_text("\n")
    with pytest.raises(UnreadableTable):
        header_of(path)


def test_every_invented_code_is_used_somewhere_and_popular_ones_are_drawn_more_often():
    settings = SyntheticSettings()
    codes = code_list(settings, "diagnosis", np.random.default_rng(0))
    assert len(codes.codes) == len(set(codes.codes)) == settings.codes_per_mode["diagnosis"]
    assert codes.used.any(axis=0).all()
    drawn = popular(codes, 0, 2000, np.random.default_rng(1))
    assert codes.used[0, drawn].all()
    assert np.median(drawn) < len(codes.codes) / 2


def test_a_table_in_two_schemas_is_the_first_on_the_search_path_and_else_refused():
    listed = [("new", "Person", "id", "BIGINT"), ("old", "person", "id", "VARCHAR")]
    assert Catalog("cdm", listed, in_order=True).columns("person") == {"id": "BIGINT"}
    with pytest.raises(DoubtfulTable, match="is there more than once"):
        Catalog("cdm", listed).columns("person")
    twins = [("new", "Person", "id", "BIGINT"), ("new", "person", "id", "VARCHAR")]
    with pytest.raises(DoubtfulTable):  # capitals only: no search path tells them apart
        Catalog("cdm", twins, in_order=True).columns("person")
