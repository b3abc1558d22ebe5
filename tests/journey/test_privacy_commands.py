"""Privacy as a user meets it on the command line: sums, alignment, small cells, the audit log."""

from __future__ import annotations

import json
import subprocess
import sys

import pyarrow.parquet as pq
import pytest

from tripheno.lab.synthetic.network import SyntheticSettings, synthetic_network
from tripheno.records.events import CountingRule, write_events

QUICK = ("--rank", 3, "--max-iter", 4, "--method", "exact", "--no-compare", "--format", "json")


def tripheno(*words, check=0):
    done = subprocess.run(
        [sys.executable, "-m", "tripheno", *map(str, words)],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == check, done.stderr
    assert "Traceback" not in done.stderr
    return done


@pytest.fixture(scope="module")
def sites(tmp_path_factory):
    home = tmp_path_factory.mktemp("sites")
    settings = SyntheticSettings(patients_per_hospital=(60, 50, 40))
    for hospital in synthetic_network(settings).hospitals:
        (home / hospital.name).mkdir()
        write_events(hospital.events, home / hospital.name / "events.parquet", CountingRule())
    return sorted(home.iterdir())


@pytest.fixture(scope="module")
def run(sites, tmp_path_factory):
    folder = tmp_path_factory.mktemp("run") / "run"
    done = tripheno("simulate", *sites, "--out", folder, *QUICK)
    return json.loads(done.stdout), folder


def test_three_hospitals_sum_blindly_and_align_by_tokens_by_default(run):
    summary, _ = run
    assert summary["sums"] == "blind"
    assert summary["align"] == "tokens"


@pytest.mark.filterwarnings("ignore")
def test_plain_sums_give_the_same_factors(run, sites, tmp_path):
    summary, folder = run
    words = ("--sums", "plain")
    other = tripheno("simulate", *sites, "--out", tmp_path / "run", *QUICK, *words)
    assert json.loads(other.stdout)["sums"] == "plain"
    assert json.loads(other.stdout)["objective"] == pytest.approx(summary["objective"], rel=1e-9)
    for name in ("medication", "diagnosis"):
        files = [
            pq.read_table(f / "factors" / f"{name}.parquet") for f in (folder, tmp_path / "run")
        ]
        assert files[0]["code"] == files[1]["code"]


def test_two_hospitals_use_plain_sums_unless_asked_and_then_are_refused(
    sites, tmp_path, in_process
):
    done = tripheno("simulate", *sites[:2], "--out", tmp_path / "run", *QUICK)
    assert json.loads(done.stdout)["sums"] == "plain"
    words = ("--out", tmp_path / "no", *QUICK, "--sums", "blind")
    refused = in_process("simulate", *sites[:2], *words, check=4)
    assert json.loads(refused.err.splitlines()[-1])["error"]["code"] == "TRIP-E401"
    assert "each sees the other's contribution" in refused.err


def test_small_cells_are_removed_network_wide(sites, tmp_path):
    done = tripheno("simulate", *sites, "--out", tmp_path / "run", *QUICK, "--min-cell", 11)
    summary = json.loads(done.stdout)
    assert sum(summary["codes_removed"].values()) > 0
    assert "codes that fewer than 11 people have were removed" in done.stderr


def test_the_audit_log_of_a_run_holds_and_a_changed_one_does_not(run, tmp_path, in_process):
    _, folder = run
    assert in_process("audit", "verify", folder).out.startswith("OK")
    rows = json.loads(in_process("audit", "show", folder, "--format", "json").out)
    assert {row["step"] for row in rows} >= {"announce", "confirm", "totals", "starts", "measures"}
    for name in ("audit.jsonl", "audit.head.json"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    log = tmp_path / "audit.jsonl"
    lines = log.read_text().splitlines(keepends=True)
    log.write_text("".join(lines[:-4]))
    cut = in_process("audit", "verify", tmp_path, check=4)
    assert "TRIP-E404 the tail is cut" in cut.err
    log.write_text("".join([*lines[:6], lines[6].replace('"n":7', '"n":8'), *lines[7:]]))
    assert "line 7" in in_process("audit", "verify", tmp_path, check=4).err
    assert "TRIP-E203" in in_process("audit", "verify", tmp_path / "none", check=2).err
