"""The benchmark runs, on a size that takes seconds, and its page holds what it measured."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tripheno.evaluation import benchmark_peers as peers
from tripheno.evaluation.benchmark import BenchmarkPlan, benchmark, interleaved
from tripheno.evaluation.benchmark_table import write
from tripheno.tensor import CountTensor
from tripheno.tensor.factors import gram_of_others

TINY = BenchmarkPlan(
    (15_000_000,),
    scale=0.002,
    repeats=1,
    iterations=2,
    ranks=(3,),
    hospitals=(2,),
    with_pyttb=False,
)


@pytest.fixture(scope="module")
def found():
    said = []
    result = benchmark(TINY, said.append)
    assert any("kernels" in text for text in said)
    return result


def test_every_part_was_measured(found):
    assert [tensor["windows"] for tensor in found["tensors"]] == ["day-like windows", "visits"]
    for tensor in found["tensors"]:
        assert all(took["wall"] > 0 for took in tensor["seconds"].values())
        assert {"blocks", "events", "coordinates", "scipy fibre-CSR"} <= set(tensor["seconds"])
        assert [run["method"] for run in tensor["fits"]] == ["central", "central", "exact", "trip"]
        assert all(run["iterations"] == 2 for run in tensor["fits"])
        assert tensor["bytes_per_nonzero"]["blocks"] < 6


def test_the_page_and_the_numbers_are_written(found, tmp_path):
    page = write(found, tmp_path / "new")
    assert (tmp_path / "new" / "benchmarks.md").read_text("utf-8") == page
    again = json.loads((tmp_path / "new" / "benchmarks.json").read_text("utf-8"))
    assert again["rank"] == 10
    assert "| scipy fibre-CSR |" in page


def test_works_are_taken_in_turn():
    order = []
    interleaved({"a": lambda: order.append("a"), "b": lambda: order.append("b")}, 2)
    assert order == ["a", "b", "a", "b"]


def test_the_peers_join_counts_what_we_count():
    duckdb = pytest.importorskip("duckdb")
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
