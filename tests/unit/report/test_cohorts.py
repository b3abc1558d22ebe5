from __future__ import annotations

import csv
import json
import os

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.optimize import nnls

from tripheno.errors import OutputExists, RunNotFound, UnknownCodes
from tripheno.lab.synthetic.network import SyntheticSettings, synthetic_network
from tripheno.records.events import CountingRule, read_events, write_events
from tripheno.report.cohorts import read_frozen, score, write_scored
from tripheno.report.page import render_page
from tripheno.report.run_folder import read_report
from tripheno.report.simulated import run_simulation
from tripheno.solver.settings import SolverSettings
from tripheno.study.simulation import Simulation, assemble
from tripheno.tensor.count_tensor import CountTensor

RULE = CountingRule()


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A run of two hospitals, without bias and constraint too, and a third that took no part."""
    home, before = tmp_path_factory.mktemp("cohorts"), os.umask(0)  # see the test of the modes
    settings = SyntheticSettings(patients_per_hospital=(120, 100, 60), with_times=True)
    *members, outsider = synthetic_network(settings).hospitals
    federation = assemble({h.name: CountTensor.from_events(h.events) for h in members})
    for name, options in {
        "run": {}, "free": {"constraint": "none"}, "biased": {"bias": True},
    }.items():  # fmt: skip
        solver = SolverSettings(4, "exact", max_iter=300, tol=1e-4, starts=1, **options)
        run_simulation(Simulation(federation, solver, {}, beside=(), resamples=0), home / name, 0.0)
    (home / "outsider").mkdir()
    write_events(outsider.events, home / "outsider" / "events.parquet", RULE)
    os.umask(before)
    return home


def test_what_holds_patients_is_its_owners_alone_under_a_lax_umask(home, tmp_path):
    before = os.umask(0)
    write_scored(tmp_path / "out", score(home / "run", home / "outsider"), home / "run")
    os.umask(before)
    assert (home / "run" / "phenotypes.csv").stat().st_mode & 0o777 == 0o666  # it was lax
    assert (home / "outsider" / "events.parquet").stat().st_mode & 0o777 == 0o600
    for folder in (home / "run" / "local", tmp_path / "out"):
        assert folder.stat().st_mode & 0o777 == 0o700
        assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}


@pytest.mark.parametrize("run", ["run", "free", "biased"])
def test_memberships_equal_a_fresh_solve_of_every_patient(home, run):
    scored = score(home / run, home / "outsider")
    frozen = read_frozen(home / run)
    features = frozen.factors
    if frozen.bias:
        features = [np.column_stack(pair) for pair in zip(features, frozen.bias, strict=True)]
    tensor = CountTensor.from_events(read_events(home / "outsider" / "events.parquet"))
    dense = tensor.on_axes(frozen.axes).to_tensorly()
    product = np.einsum("ir,jr->ijr", *features).reshape(-1, features[0].shape[1])
    for patient, row in enumerate(scored.memberships[:40]):
        cells = dense[patient].ravel()
        fresh = np.linalg.lstsq(product, cells)[0] if run == "free" else nnls(product, cells)[0]
        assert row == pytest.approx(fresh[:4], abs=1e-8)


def test_the_cohort_has_omops_columns_and_every_carrier_once(home, tmp_path):
    scored = score(home / "run", home / "outsider")
    summary = write_scored(tmp_path / "out", scored, home / "run")
    with (tmp_path / "out" / "cohort.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert list(rows[0]) == [
        "cohort_definition_id", "subject_id", "cohort_start_date", "cohort_end_date",
    ]  # fmt: skip
    pairs = {(int(r["cohort_definition_id"]) - 1, int(r["subject_id"])) for r in rows}
    assert pairs == {(r, p) for p, r in np.argwhere(scored.has)}
    assert len(pairs) == len(rows) == summary["cohort_rows"] > 0
    assert all("2" <= r["cohort_start_date"][:1] <= r["cohort_end_date"][:1] for r in rows)
    assert all(r["cohort_start_date"] <= r["cohort_end_date"] for r in rows)
    assert (tmp_path / "out").stat().st_mode & 0o777 == 0o700
    assert json.loads((tmp_path / "out" / "scored.json").read_text()) == summary


def test_a_cohort_starts_with_the_first_of_the_phenotypes_codes(home, tmp_path):
    scored = score(home / "run", home / "outsider")
    write_scored(tmp_path / "out", scored, home / "run")
    with (tmp_path / "out" / "cohort.csv").open() as stream:
        row = next(csv.DictReader(stream))
    phenotype = read_report(home / "run").phenotypes[int(row["cohort_definition_id"]) - 1]
    shown = {(mode, c.code) for mode, codes in phenotype.codes.items() for c in codes}
    days = [
        event["time"].date().isoformat()
        for event in read_events(home / "outsider" / "events.parquet").to_pylist()
        if event["patient"] == int(row["subject_id"]) and (event["mode"], event["code"]) in shown
    ]
    assert (row["cohort_start_date"], row["cohort_end_date"]) == (min(days), max(days))


def test_unknown_codes_are_counted_and_left_out(home, tmp_path):
    events = read_events(home / "outsider" / "events.parquet")
    extra = pa.table(
        {"patient": [0, 0], "window": [0, 0], "mode": ["medication", "diagnosis"],
         "code": ["never-seen", "nor-this"]}
    )  # fmt: skip
    plain = events.select(["patient", "window", "mode", "code"]).cast(
        pa.schema([(n, pa.string() if n in ("mode", "code") else pa.int64())
                   for n in ("patient", "window", "mode", "code")])
    )  # fmt: skip
    write_events(pa.concat_tables([plain, extra]), tmp_path / "more.parquet", RULE)
    before, after = score(home / "run", home / "outsider"), score(
        home / "run", tmp_path / "more.parquet"
    )  # fmt: skip
    for mode, (unknown, size) in before.unknown.items():
        assert after.unknown[mode] == (unknown + 1, size + 1)
    assert np.array_equal(before.memberships, after.memberships)
    assert all(row[2:] == ["", ""] for row in _rows(home, after))


def _rows(home, scored):
    from tripheno.report.cohorts import cohort_rows

    return [row for p in read_report(home / "run").phenotypes for row in cohort_rows(p, scored)]


def test_patients_of_another_code_system_are_refused(home, tmp_path):
    pq.write_table(
        pa.table({"patient": [0, 0], "window": [0, 0], "mode": ["medication", "diagnosis"],
                  "code": ["x", "y"]}),
        tmp_path / "foreign.parquet",
    )  # fmt: skip
    with pytest.raises(UnknownCodes, match="None of the 1 medication codes"):
        score(home / "run", tmp_path / "foreign.parquet")


def test_a_folder_with_something_else_is_left_alone(home, tmp_path):
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(OutputExists):
        write_scored(tmp_path, score(home / "run", home / "outsider"), home / "run")


def test_the_page_made_again_is_the_same_page(home):
    page = (home / "run" / "report.html").read_text()
    assert render_page(read_report(home / "run")) == page


def test_a_folder_that_is_no_run_or_half_a_run_is_named(home, tmp_path):
    with pytest.raises(RunNotFound):
        read_report(tmp_path)
    (tmp_path / "run.json").write_text((home / "run" / "run.json").read_text())
    with pytest.raises(RunNotFound):
        read_report(tmp_path)
    with pytest.raises(RunNotFound):
        read_frozen(tmp_path)
