"""The benchmark runs, on a size that takes seconds, and its page holds what it measured."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tripheno.lab import benchmark_peers as peers
from tripheno.lab.benchmark import (
    DAYS,
    VISITS,
    BenchmarkCase,
    BenchmarkPlan,
    interleaved,
    measured,
)
from tripheno.lab.benchmark_fits import TimedFit
from tripheno.lab.benchmark_table import write
from tripheno.tensor import CountTensor
from tripheno.tensor.factors import gram_of_others

RUNS = (TimedFit("central"), TimedFit("central", precision="single"), TimedFit("trip", 3))
TINY = BenchmarkPlan(
    (
        BenchmarkCase(
            "t15", DAYS, 5.0, 15_000_000, runs=RUNS, ranks=(3,), coordinates=True, building=True
        ),
        BenchmarkCase("v15", VISITS, 1.35, 15_000_000),
        BenchmarkCase("v200", VISITS, 1.35, 50_000_000, 2.0),
    ),
    scale=0.002,
    repeats=1,
    iterations=2,
)


@pytest.fixture(scope="module")
def found():
    said = []
    *_, result = measured(TINY, said.append)
    assert any("kernels" in text for text in said)
    return result


def test_every_part_was_measured(found):
    tensor = found["tensors"]["t15"]
    assert {"blocks", "events", "coordinates", "scipy fibre-CSR"} <= set(tensor["seconds"])
    assert [run["method"] for run in tensor["fits"]] == ["central", "central", "trip"]
    assert [run["sums"] for run in tensor["fits"]] == ["plain", "plain", "blind"]
    assert all(run["iterations"] == 2 for run in tensor["fits"])
    assert set(tensor["building"]) == {"tripheno", "DuckDB"}
    for tensor in found["tensors"].values():
        assert all(took["wall"] > 0 for took in tensor["seconds"].values())
        assert tensor["bytes_per_nonzero"]["blocks"] < 6


def test_single_precision_fits_as_well_to_six_digits(found):
    double, single, _ = found["tensors"]["t15"]["fits"]
    assert single["rmse"] == pytest.approx(double["rmse"], rel=1e-6)


def test_a_gate_is_judged_where_its_figures_were_taken(found):
    judged = {one["what"]: one for one in found["gates"]}
    assert "growth of events, visits 15M to 200M" in judged
    assert "events against blocks, visits 50M (times)" not in judged
    memory = judged["bytes a nonzero, blocks, day windows 15M"]
    assert memory["holds"]
    assert memory["measured"] == found["tensors"]["t15"]["bytes_per_nonzero"]["blocks"]


def test_the_page_the_picture_and_the_numbers_are_written(found, tmp_path):
    page = write(found, tmp_path / "new")
    assert (tmp_path / "new" / "benchmarks.md").read_text("utf-8").startswith(page)
    assert "scipy fibre-CSR" in (tmp_path / "new" / "benchmarks.svg").read_text("utf-8")
    again = json.loads((tmp_path / "new" / "benchmarks.json").read_text("utf-8"))
    assert again["rank"] == 10
    assert "| scipy fibre-CSR |" in page
    assert "| demand | gate | goal | measured | |" in page


def test_works_are_taken_in_turn():
    order = []
    interleaved({"a": lambda: order.append("a"), "b": lambda: order.append("b")}, 2)
    assert order == ["a", "b", "a", "b"]


def test_the_peers_join_counts_what_we_count():
    import duckdb
    import pyarrow as pa

    events = pa.table(
        {
            "patient": [0, 0, 0, 0, 1, 1],
            "window": [1, 1, 2, 2, 1, 2],
            "mode": ["m", "d", "m", "d", "m", "d"],
            "code": ["a", "x", "a", "x", "a", "x"],
        }
    )
    with duckdb.connect() as connection:
        connection.register("events", events)
        assert connection.execute(peers.JOIN, ["m", "d"]).fetchall() == [(0, "a", "x", 2)]


def test_the_fibres_of_scipy_give_an_iteration():
    tensor = CountTensor.from_cells([[0, 0, 0], [0, 1, 1], [1, 1, 0]], [1, 2, 3])
    features = [np.eye(2), np.eye(2)]
    peers.scipy_fibres(tensor, features, gram_of_others(features))()
