"""The commands as a user starts them: real processes, real files."""

from __future__ import annotations

import gzip
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kit.requirements import require
from tripheno.cli.main import in_our_shape
from tripheno.lab.synthetic.network import SyntheticSettings, synthetic_network
from tripheno.records.events import CountingRule, write_events
from tripheno.report.titles import shortened
from tripheno.tensor import reference
from tripheno.tensor.count_tensor import CountTensor
from tripheno.tensor.reading import read_tensor

FIELDS = {
    "tripheno", "method", "variant", "rank", "constraint", "seed", "hospitals", "shape",
    "nonzeros", "iterations", "converged", "stopped_because", "objective", "rmse", "seconds",
    "bytes", "compare",
}  # fmt: skip
RMSE = {"nonzeros", "frobenius_per_nonzero", "all_cells"}
SECONDS = {
    "alignment", "compute_max_hospital", "compute_total", "communication_at_15MBps", "wall",
}  # fmt: skip
ONE_START = ("--starts", 1, "--resamples", 0)  # where the tournament is not what is tested
BYTES = {"up_per_hospital", "down_per_hospital", "total", "rounds"}


def tripheno(*words, cwd=None, check=0):
    done = subprocess.run(
        [sys.executable, "-m", "tripheno", *map(str, words)],
        capture_output=True, text=True, cwd=cwd, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == check, done.stderr
    assert "Traceback" not in done.stderr
    return done


def has_every_field(summary):
    assert set(summary) >= FIELDS
    assert set(summary["rmse"]) == RMSE
    assert set(summary["seconds"]) == SECONDS
    assert set(summary["bytes"]) == BYTES
    assert all(set(h) == {"name", "patients", "nonzeros"} for h in summary["hospitals"])
    for pair in summary["compare"].values():
        assert set(pair) == {"rmse_gap", "fms"}


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo") / "run"
    return tripheno("demo", "--out", folder), folder


class TestDemo:
    def test_it_shows_the_comparison_and_names_the_phenotypes(self, demo):
        done, _ = demo
        assert re.search(r"trip\s+\d\.\d{4}\s+[+-]?0\.00\d\d %", done.stdout)
        assert "Sickle cell / chronic pain crisis" in done.stdout
        said = " ".join(done.stdout.split())
        assert "Seen only together: Sickle cell / chronic pain crisis (stable)." in said
        assert "no room for it: Asthma, Hypothyroidism" in said  # what together costs
        assert "Cystic fibrosis with pancreatic involvement" in done.stdout
        assert "patients ×" in done.stderr

    def test_its_run_folder_is_complete(self, demo):
        _, folder = demo
        summary = json.loads((folder / "run.json").read_text())
        has_every_field(summary)
        assert summary["method"] == "exact"
        assert abs(summary["compare"]["central"]["rmse_gap"]) <= 0.0006
        assert summary["compare"]["central"]["fms"] >= 0.95
        assert summary["compare"]["local"]["rmse_gap"] > 0.01
        assert summary["converged"] is True
        history = [json.loads(line) for line in (folder / "history.jsonl").read_text().splitlines()]
        assert len(history) == summary["iterations"]
        keys = {"iteration", "objective", "rmse", "primal", "dual", "bytes", "seconds"}
        assert all(set(line) == keys for line in history)
        table = pq.read_table(folder / "factors" / "medication.parquet")
        assert table.column_names[:3] == ["position", "code", "label"]
        assert table.num_columns == 3 + summary["rank"]
        assert len(json.loads((folder / "phenotypes.json").read_text())) == summary["rank"]
        assert (folder / "phenotypes.csv").read_text().startswith("phenotype,title,mode,rank,code")

    def test_patients_stay_in_a_folder_that_only_the_owner_opens(self, demo):
        _, folder = demo
        assert (folder / "local").stat().st_mode & 0o777 == 0o700
        names = {path.stem for path in (folder / "local").iterdir()}
        assert names == {"northfield", "harbour", "lakeside"}

    def test_the_page_needs_no_network_and_no_script(self, demo):
        _, folder = demo
        page = (folder / "report.html").read_text()
        assert not re.search(r"<script|src=|https?://|@import|url\(", page)
        assert "Sickle cell disease NOS" in page
        assert len(page) < 2_000_000

    def test_neither_a_run_nor_anything_else_is_replaced_unasked(self, demo, tmp_path):
        _, folder = demo
        before = (folder / "run.json").read_bytes()
        done = tripheno("demo", "--out", folder, check=2)
        assert "holds a finished run" in done.stderr
        assert "--force" in done.stderr
        assert (folder / "run.json").read_bytes() == before
        precious = tmp_path / "precious"
        precious.mkdir()
        (precious / "thesis.txt").write_text("years of work")
        done = tripheno("demo", "--out", precious, check=2)
        assert done.stderr.startswith("TRIP-E202")
        assert [path.name for path in precious.iterdir()] == ["thesis.txt"]


@pytest.fixture(scope="module")
def sites(tmp_path_factory):
    """Three site folders as `ingest` leaves them."""
    home = tmp_path_factory.mktemp("sites")
    settings = SyntheticSettings(patients_per_hospital=(150, 120, 100), with_times=True)
    for hospital in synthetic_network(settings).hospitals:
        folder = home / hospital.name
        folder.mkdir()
        write_events(hospital.events, folder / "events.parquet", CountingRule(cap=3))
    return sorted(home.iterdir())


def by_code(table):
    """A factor's rows in the order of their codes, where a mode has codes."""
    if "code" not in table.column_names:
        return table
    return table.take(np.argsort([int(code) for code in table["code"].to_pylist()]))


class TestSimulate:
    def test_all_methods_run_on_three_sites(self, sites, tmp_path):
        done = tripheno(
            "simulate", *sites, "--out", tmp_path / "run", "--method", "all", "--rank", 4,
            "--tol", "1e-4", "--format", "json",
        )  # fmt: skip
        summary = json.loads(done.stdout)
        assert summary == json.loads((tmp_path / "run" / "run.json").read_text())
        assert set(summary["methods"]) == {"trip", "exact", "central", "local"}
        for method in summary["methods"]:
            has_every_field(json.loads((tmp_path / "run" / method / "run.json").read_text()))
        assert abs(summary["compare"]["exact"]["rmse_gap"]) < 1e-9
        assert abs(summary["compare"]["trip"]["rmse_gap"]) < 6e-4
        assert [h["name"] for h in summary["hospitals"]] == [site.name for site in sites]

    def test_the_same_seed_gives_the_same_factors(self, sites, tmp_path):
        for name in ("one", "two"):
            tripheno(
                "simulate", *sites, "--out", tmp_path / name, "--rank", 3, "--seed", 5,
                "--max-iter", 15, "--no-compare", "--starts", 4, "--resamples", 0,
            )  # fmt: skip
        one, two = (
            pq.read_table(tmp_path / n / "factors/diagnosis.parquet") for n in ("one", "two")
        )
        assert one.equals(two)

    def test_a_public_tensor_runs_with_all_four_methods(self, shared_data, tmp_path):
        path = shared_data("tensors/splatt_med.tns.gz")
        tripheno(
            "simulate", path, "--out", tmp_path / "run", "--method", "all", "--rank", 3,
            "--hospitals", 3, "--skew", 0.5, "--max-iter", 12, *ONE_START,
        )  # fmt: skip
        summary = json.loads((tmp_path / "run" / "run.json").read_text())
        assert summary["shape"] == [2425, 10816, 29567]
        assert summary["nonzeros"] == 100_000
        assert [h["patients"] for h in summary["hospitals"]] == [1212, 607, 606]
        tensor = CountTensor.from_tns(path)
        level = float(np.sqrt(tensor.squared_norm / tensor.nonzeros))
        for method in summary["methods"].values():
            assert 0.9 * level < method["rmse"]["nonzeros"] < level

    def test_a_four_mode_tensor_runs_and_its_error_is_confirmed_densely(self, tmp_path):
        rng = np.random.default_rng(4)
        dense = rng.poisson(
            np.einsum("ir,jr,kr,lr->ijkl", *(rng.random((n, 2)) for n in (30, 6, 5, 4)))
        )
        for ending in ("tns", "tns.gz", "csv", "parquet"):  # whichever way it comes, it is the same
            write_cells(dense, path := tmp_path / f"tensor.{ending}")
            cells = read_tensor(path).cells
            patients = np.repeat(np.arange(len(dense)), np.diff(cells.starts))
            assert np.array_equal(dense[patients, *cells.indices.T], cells.values)
            assert len(cells.values) == np.count_nonzero(dense)
        run = tmp_path / "run"
        words = ["simulate", path, "--out", run, "--method", "all", "--rank", 2, "--hospitals", 3]
        tripheno(*words, "--max-iter", 30, *ONE_START)
        for method in ("trip", "exact", "central", "local"):
            summary = json.loads((run / method / "run.json").read_text())
            assert summary["shape"] == list(dense.shape)
            files = sorted((run / method / "local").iterdir())
            patients = pa.concat_tables(pq.read_table(file) for file in files)
            factors = [
                pq.read_table(run / method / "factors" / f"{mode}.parquet")
                for mode in summary["modes"][1:]
            ]
            columns = [columns_of(table) for table in (patients, *map(by_code, factors))]
            order = np.random.default_rng(0).permutation(len(dense))  # as `simulate` deals them
            nonzero, every = reference.squared_errors(dense[order].astype(float), columns)
            assert summary["rmse"]["nonzeros"] == pytest.approx(
                np.sqrt(nonzero / (dense > 0).sum()), rel=1e-9
            )
            assert summary["rmse"]["all_cells"] == pytest.approx(
                np.sqrt(every / dense.size), rel=1e-7
            )

    @pytest.mark.parametrize(
        ("words", "code", "error"),
        [
            (["nowhere"], 3, "TRIP-E301"),
            (["notes.txt"], 3, "TRIP-E306"),
            (["broken.parquet"], 3, "TRIP-E306"),
            (["negative.csv"], 3, "TRIP-E303"),
            (["tiny.csv", "--hospitals", "9"], 3, "TRIP-E307"),
            (["tiny.csv", "tiny.csv", "--hospitals", "2"], 2, "TRIP-E200"),
            (["tiny.csv", "--skew", "0.5"], 2, "TRIP-E200"),
            (["tiny.csv", "--variant", "printed"], 2, "TRIP-E200"),
            (["tiny.csv", "--rank", "0"], 2, "--rank"),
        ],
    )
    def test_bad_input_gives_one_line_and_an_exit_code(
        self, tmp_path, in_process, words, code, error
    ):
        (tmp_path / "notes.txt").write_text("not a tensor")
        (tmp_path / "broken.parquet").write_bytes(b"PAR1 but truncated")
        (tmp_path / "tiny.csv").write_text("patient,m,d,value\n1,a,x,2\n2,b,y,1\n")
        (tmp_path / "negative.csv").write_text("patient,m,d,value\n1,a,x,-2\n")
        done = in_process("simulate", *words, "--out", "run", cwd=tmp_path, check=code)
        assert error in done.err
        assert done.out == ""
        assert not (tmp_path / "run").exists()

    def test_a_full_disk_is_reported_and_leaves_no_half_written_run(self, sites, tmp_path):
        full = Path("/dev/full")
        require(full.exists(), "no /dev/full on this system to stand for a full disk")
        run = tmp_path / "run"
        run.mkdir()
        (run / "phenotypes.json.part").symlink_to(full)
        (run / "run.json").write_text("{}")
        words = ["simulate", *sites, "--out", run, "--max-iter", 3, "--rank", 2, *ONE_START]
        assert "TRIP-E202" in tripheno(*words, check=2).stderr
        done = tripheno(*words, "--force", check=1)
        assert "TRIP-E102 No space left on device" in done.stderr
        assert not (run / "run.json").exists()


@pytest.fixture(scope="module")
def run(sites, tmp_path_factory):
    """Two of the three sites' phenotypes."""
    folder = tmp_path_factory.mktemp("use") / "run"
    words = ["--rank", 3, "--tol", "1e-3", "--no-compare", "--method", "exact"]
    tripheno("simulate", *sites[:2], "--out", folder, *words)
    return folder


class TestPhenotypesInUse:
    """New patients, the number of phenotypes, the page made again."""

    def test_a_hospital_that_took_no_part_scores_its_patients(self, run, sites, tmp_path):
        words = ["transform", run, sites[2], "--out", tmp_path / "scored", "--format", "json"]
        done = tripheno(*words)
        summary = json.loads(done.stdout)
        assert summary["cohort_rows"] > 0
        assert summary["dated"] is True
        assert any(mode["unknown"] for mode in summary["unknown_codes"].values())
        assert "codes are unknown to these phenotypes" in done.stderr
        again = tripheno(*words[:-2])
        assert "Patients here" in again.stdout

    def test_a_run_that_is_none_and_patients_that_are_none_are_named(
        self, run, tmp_path, in_process
    ):
        out = ("--out", tmp_path / "scored")
        assert "TRIP-E203" in in_process("transform", tmp_path, run, *out, check=2).err
        assert "TRIP-E301" in in_process("transform", run, "nowhere", *out, check=3).err
        assert "TRIP-E203" in in_process("report", tmp_path, check=2).err
        assert "TRIP-E203" in in_process("ui", tmp_path, check=2).err

    def test_two_runs_are_compared_and_verdicts_come_back_from_a_sheet(self, run, sites, tmp_path):
        words = ["--rank", 2, "--tol", "1e-3", "--no-compare", *ONE_START]
        tripheno("simulate", *sites[:2], "--out", tmp_path / "two", *words)
        both = ["compare", run, tmp_path / "two"]
        found = json.loads(tripheno(*both, "--format", "json").stdout)
        assert len(found["matched"]) + len(found["appeared"]) == 2
        assert "Similarity" in tripheno(*both, "--out", tmp_path / "page.html").stdout
        assert "Two runs compared" in (tmp_path / "page.html").read_text()
        tripheno("export", tmp_path / "two", "--as", "csv", "--out", tmp_path / "out")
        sheet = tmp_path / "out" / "review.csv"
        filled = sheet.read_text().replace(",,,,,0\n", ",Heart failure,meaningful,,,0\n")
        sheet.write_text(filled)
        done = tripheno("review", tmp_path / "two", sheet, "--reviewer", "Ada", "--format", "json")
        assert json.loads(done.stdout) == {"added": 4, "phenotypes": 2}
        assert "Heart failure" in (tmp_path / "two" / "phenotypes.csv").read_text()
        assert "Heart failure" in (tmp_path / "two" / "report.html").read_text()

    def test_the_page_is_made_again(self, run, tmp_path):
        tripheno("report", run, "--out", tmp_path / "again.html")
        assert (tmp_path / "again.html").read_text() == (run / "report.html").read_text()

    def test_the_number_of_phenotypes_is_recommended_with_reasons(
        self, sites, tmp_path, in_process
    ):
        words = ["rank", *sites, "--starts", 1, "--tol", "1e-3"]
        form = ("--out", tmp_path, "--format", "json")
        found = json.loads(tripheno(*words, "--ranks", "6:8", *form).stdout)
        assert [one["rank"] for one in found["evidence"]] == [6, 7, 8]
        assert found["recommendation"]["sure"] in ("clear", "fair", "weak")
        assert (tmp_path / "rank.svg").read_text().startswith("<svg")
        none = tripheno(*words, "--ranks", "2", "--out", tmp_path).stdout
        assert "No evidence for any number of phenotypes tried" in none
        assert "← recommended" not in none
        assert json.loads((tmp_path / "rank.json").read_text())["recommendation"]["rank"] is None
        done = in_process("rank", *sites, "--ranks", "x", "--out", tmp_path, check=2)
        assert "--ranks" in done.err


def write_cells(dense, path):
    cells = np.argwhere(dense)
    values = dense[dense > 0]
    if ".tns" in path.name:
        lines = "".join(
            " ".join(map(str, [*cell + 1, value])) + "\n"
            for cell, value in zip(cells, values, strict=True)
        )
        opener = gzip.open if path.suffix == ".gz" else open
        with opener(path, "wt") as stream:
            stream.write(lines)
        return
    table = pa.table(
        dict(zip(("patient", "a", "b", "c", "value"), [*cells.T, values], strict=True))
    )
    if path.suffix == ".csv":
        from pyarrow import csv

        csv.write_csv(table, path)
    else:
        pq.write_table(table, path)


def columns_of(table):
    names = [name for name in table.column_names if name.startswith("component_")]
    return np.column_stack([table[name].to_numpy() for name in names])


class TestTheRest:
    @pytest.mark.parametrize(
        ("words", "code", "said"),
        [
            (["report", "nowhere"], "TRIP-E203", "no run folder"),
            (["simulate", "nowhere", "--out", "run"], "TRIP-E301", "nowhere"),
            (["simulate", "nowhere", "--out", "run", "--rank", "0"], "TRIP-E200", "--rank"),
            (["report"], "TRIP-E200", "Missing argument"),
        ],
    )
    def test_errors_are_json_where_json_is_asked_for(self, tmp_path, in_process, words, code, said):
        status = {"TRIP-E301": 3}.get(code, 2)
        done = in_process(*words, "--format", "json", cwd=tmp_path, check=status)
        assert done.out == ""
        error = json.loads(done.err)["error"]
        assert (error["code"], error["exit_code"]) == (code, status)
        assert said in error["what"]

    def test_a_fault_that_nobody_foresaw_tells_its_place_and_not_its_words(self):
        with pytest.raises(TypeError) as caught:
            shortened(7012, 3)
        ours = in_our_shape(caught.value)
        assert ours.where.startswith("titles.py, line ")
        assert (ours.code, ours.exit_code) == ("TRIP-E100", 1)
        assert str(caught.value) not in str(ours)
        assert in_our_shape(KeyboardInterrupt()).exit_code == 130

    def test_doubts_about_the_sites_are_said_before_work_begins(self, tmp_path):
        (tmp_path / "cells.csv").write_text("patient,drug,disease,value\n1,a,x,2\n2,b,y,3\n")
        words = ("simulate", "cells.csv", "--rank", 1, "--out", "run", "--no-compare", *ONE_START)
        said = tripheno(*words, cwd=tmp_path).stderr
        assert 0 <= said.find("one site is one hospital") < said.find("axes agreed")

    def test_a_shell_completes_commands_as_the_documentation_says(self):
        asked = {"COMP_WORDS": "tripheno exp", "COMP_CWORD": "1", **os.environ}
        asked["_TRIPHENO_COMPLETE"] = "complete_bash"
        program = Path(sys.executable).with_name("tripheno")
        done = subprocess.run([program], env=asked, capture_output=True, text=True, check=True)
        assert done.stdout.split() == ["export", "explain"]
        assert "--install-completion" in tripheno("--help").stdout

    def test_explain_knows_every_code_and_refuses_others(self, in_process):
        listed = json.loads(tripheno("explain", "--format", "json").stdout)
        assert {"TRIP-E101", "TRIP-E302", "TRIP-E501"} <= {entry["code"] for entry in listed}
        assert "schema" in in_process("explain", "E302").out
        assert "TRIP-E201" in in_process("explain", "E999", check=2).err

    def test_importing_the_package_is_silent_and_loads_nothing_heavy(self):
        code = "import sys, tripheno; assert not {'numba', 'pyarrow', 'scipy'} & set(sys.modules)"
        subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)

    def test_every_public_name_is_there_and_documented(self):
        import tripheno as package

        for name in package.__all__:
            assert getattr(package, name).__doc__

    def test_version_and_help_are_given(self):
        assert tripheno("--version").stdout.strip() == "tripheno 0.1.0"
        text = tripheno("--help").stdout
        assert all(command in text for command in ("demo", "simulate", "explain"))
