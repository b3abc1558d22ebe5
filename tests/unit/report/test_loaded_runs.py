"""A finished run in Python, and two of them beside each other."""

from __future__ import annotations

import json
import re
import shutil
import warnings
from dataclasses import replace

import altair as alt
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import tripheno
from kit.planted import planted
from tripheno.cli.main import app
from tripheno.errors import BadShape, RunNotFound, SettingsError, TriphenoWarning
from tripheno.report.charts import as_svg
from tripheno.report.runs_compared import compare_runs, render_comparison
from tripheno.report.simulated import run_simulation
from tripheno.solver.settings import SolverSettings
from tripheno.study.simulation import Simulation, assemble


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """Two runs on the same patients, with six and with four phenotypes."""
    home = tmp_path_factory.mktemp("loaded")
    federation = assemble(planted(0).hospitals)
    for name, rank in {"six": 6, "four": 4}.items():
        settings = SolverSettings(rank, "exact", tol=1e-4, starts=1)
        run_simulation(Simulation(federation, settings, {}, beside=()), home / name, 0.0)
    return home


@pytest.fixture(scope="module")
def others(tmp_path_factory):
    """A run of four phenotypes, and beside it another loss, another rank and another hospital."""
    home = tmp_path_factory.mktemp("others")
    base, (here, there, *_) = SolverSettings(4, "exact", tol=1e-4, starts=1), planted(0).hospitals
    for name, settings, site in (
        ("squared", base, here),
        ("poisson", replace(base, loss="poisson"), here),
        ("two", replace(base, n_components=2), here),
        ("site", base, there),
    ):
        tensors = {site: planted(0).hospitals[site]}
        study = Simulation(assemble(tensors), settings, {site: site}, beside=())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TriphenoWarning)
            run_simulation(study, home / name, 0.0)
    return home


@pytest.fixture
def run(home):
    (home / "six" / "annotations.jsonl").unlink(missing_ok=True)
    return tripheno.load_run(home / "six")


class TestLoadedRun:
    def test_every_table_comes_as_arrow_pandas_and_polars(self, run):
        names = ["codes", "evidence", "history", "annotations", "prevalence", "factors/medication"]
        for name in names:
            table = run.table(name)
            assert isinstance(table, pa.Table)
            assert len(run.to_pandas(name)) == len(run.to_polars(name)) == table.num_rows
        assert run.evidence.num_rows == 6
        assert run.prevalence.num_rows == 6 * 3
        assert run.factors["diagnosis"].equals(
            pq.read_table(run.folder / "factors" / "diagnosis.parquet")
        )
        with pytest.raises(SettingsError, match=r"no table.*one of codes, .*, factors/diagnosis"):
            run.table("local/northfield")

    def test_columns_have_their_kind_also_where_they_are_empty(self, run):
        assert run.annotations.num_rows == 0
        assert run.annotations.schema.field("reviewer").type == pa.string()
        assert run.annotations.schema.field("phenotype").type == pa.int64()
        assert pa.null() not in [*run.history.schema.types, *run.factors["diagnosis"].schema.types]

    def test_plots_are_altair_charts_that_can_be_drawn(self, run):
        charts = [run.plot_phenotypes(), run.plot_phenotype(2), run.plot_convergence(),
                  run.plot_prevalence()]  # fmt: skip
        for chart in charts:
            assert isinstance(chart, alt.TopLevelMixin)
            assert as_svg(chart, "a chart").startswith("<svg")
        with pytest.raises(SettingsError, match="no phenotype"):
            run.plot_phenotype(99)

    def test_codes_that_point_at_few_patients_are_not_drawn(self, home, tmp_path):
        shutil.copytree(home / "six", tmp_path / "run")
        path = tmp_path / "run" / "phenotypes.json"
        plain = json.loads(path.read_text())
        plain[0]["named"] = False
        path.write_text(json.dumps(plain))
        with pytest.raises(SettingsError, match="too few patients"):
            tripheno.load_run(tmp_path / "run").plot_phenotype(1)

    def test_every_row_of_the_overview_stands_beside_its_own_shares(self, run):
        panels = run.plot_phenotypes().to_dict()["hconcat"]
        heat, common = (panel["encoding"]["y"]["scale"]["domain"] for panel in panels)
        assert heat == common
        assert len(heat) == 6

    def test_a_name_given_here_is_everywhere_and_is_text(self, run, tmp_path):
        run.annotate(2, "Ada", name="<b>Asthma</b>", verdict="meaningful")
        assert run.phenotypes[1].title == "<b>Asthma</b>"
        assert run.evidence["verdicts"][1].as_py() == "Ada: meaningful"
        assert "&lt;b&gt;Asthma" in run._repr_html_()
        assert run.id in repr(run)
        assert "&lt;b&gt;Asthma" in (run.folder / "report.html").read_text()
        run.export("card", tmp_path / "card")
        assert "&lt;b>Asthma" in (tmp_path / "card" / "MODEL_CARD.md").read_text()
        for wrong in ({"verdict": "nice"}, {"patient": "7"}, {"name": None}):
            with pytest.raises(SettingsError):
                run.annotate(2, "Ada", **wrong)
        with pytest.raises(SettingsError, match="no format"):
            run.export("docx", tmp_path / "docx")

    def test_a_folder_that_is_no_run_is_refused_at_once(self, tmp_path):
        with pytest.raises(RunNotFound):
            tripheno.load_run(tmp_path)

    def test_another_run_in_the_folder_has_another_id(self, home, tmp_path):
        shutil.copytree(home / "six", tmp_path / "run")
        one = tripheno.load_run(tmp_path / "run").id
        shutil.rmtree(tmp_path / "run")
        shutil.copytree(home / "four", tmp_path / "run")
        assert tripheno.load_run(tmp_path / "run").id != one


class TestRunsCompared:
    def test_a_run_is_the_same_as_itself(self, home):
        found = compare_runs(home / "six", home / "six")
        assert [(p.first.number, p.second.number) for p in found.matched] == [
            (n, n) for n in range(1, 7)
        ]
        assert found.fms == pytest.approx(1.0)
        assert (found.vanished, found.appeared, found.differs) == ((), (), {})
        assert all(pair.gained == pair.lost == () for pair in found.matched)

    def test_every_phenotype_of_both_runs_is_told_once(self, home):
        found = compare_runs(home / "six", home / "four")
        first = [p.first.number for p in found.matched] + [s.number for s in found.vanished]
        second = [p.second.number for p in found.matched] + [s.number for s in found.appeared]
        assert sorted(first) == list(range(1, 7))
        assert sorted(second) == list(range(1, 5))
        assert len(found.vanished) >= 2
        assert found.differs["n_components"] == (6, 4)
        assert json.loads(json.dumps(found.to_dict()))["runs"][0]["rank"] == 6

    def test_the_page_has_names_as_text_and_needs_no_network(self, home, run):
        run.annotate(1, "Ada", name="<script>alert(1)</script>")
        page = render_comparison(compare_runs(home / "six", home / "four"))
        assert "&lt;script&gt;alert(1)" in page
        assert "<script" not in page
        assert "http://" not in page

    def test_settings_of_a_study_differ_by_their_full_names(self, home, tmp_path):
        for name, starts in {"one": 1, "two": 16}.items():
            shutil.copytree(home / "four", tmp_path / name)
            path = tmp_path / name / "run.json"
            summary = json.loads(path.read_text())
            summary["provenance"]["settings"] = {"solver": {"starts": starts, "tol": 0.1}}
            path.write_text(json.dumps(summary))
        found = compare_runs(tmp_path / "one", tmp_path / "two")
        assert found.differences == ["solver.starts 1 → 16"]

    def test_codes_are_matched_by_code_and_not_by_place(self, home, tmp_path):
        shutil.copytree(home / "six", tmp_path / "turned")
        path = tmp_path / "turned" / "factors" / "medication.parquet"
        table = pq.read_table(path)
        pq.write_table(table.take(list(range(table.num_rows))[::-1]), path)
        assert compare_runs(home / "six", tmp_path / "turned").fms == pytest.approx(1.0)

    def test_two_losses_two_ranks_and_two_sites_are_told_by_the_command(self, others):
        first = others / "squared"
        for name, setting in {"poisson": "loss", "two": "n_components", "site": "inputs"}.items():
            page = others / f"{name}.html"
            words = ["compare", str(first), str(others / name), "--format", "json", "--out"]
            done = CliRunner().invoke(app, [*words, str(page)])
            assert done.exit_code == 0, done.output
            told = json.loads(done.stdout)
            assert setting in told["differs"]
            numbers = [pair["first"]["number"] for pair in told["matched"]]
            numbers += [one["number"] for one in told["vanished"]]
            assert sorted(numbers) == [1, 2, 3, 4]
            ours, theirs = (run["rank"] for run in told["runs"])
            assert len(told["matched"]) + len(told["appeared"]) == theirs
            assert 0.0 < told["fms"] <= 1.0
            assert all(pair["similarity"] >= 0.7 for pair in told["matched"])
            assert "<script" not in page.read_text()
            if name == "poisson":  # the same patients: most stays, and codes move within
                assert len(told["matched"]) >= 2
                assert any(pair["gained"] or pair["lost"] for pair in told["matched"])
            if name == "two":
                assert len(told["vanished"]) >= ours - theirs == 2
            if name == "site":
                assert told["runs"][0]["hospitals"] != told["runs"][1]["hospitals"]

    def test_the_text_says_what_appeared_vanished_and_stayed(self, others):
        done = CliRunner().invoke(app, ["compare", str(others / "squared"), str(others / "two")])
        assert done.exit_code == 0, done.output
        assert "phenotypes are in both" in done.output
        assert done.output.count("vanished") >= 2
        assert "n_components 4 → 2" in done.output
        done = CliRunner().invoke(app, ["compare", str(others / "squared"), str(others / "site")])
        assert "inputs" in done.output
        assert re.search(r"[+−]\w", done.output)  # codes that moved within a phenotype

    def test_runs_without_a_common_mode_are_refused(self, home, tmp_path):
        shutil.copytree(home / "six", tmp_path / "other")
        summary = json.loads((tmp_path / "other" / "run.json").read_text())
        summary["modes"] = ["patient", "a", "b"]
        (tmp_path / "other" / "run.json").write_text(json.dumps(summary))
        for old, new in {"medication": "a", "diagnosis": "b"}.items():
            (tmp_path / "other" / "factors" / f"{old}.parquet").rename(
                tmp_path / "other" / "factors" / f"{new}.parquet"
            )
        with pytest.raises(BadShape):
            compare_runs(home / "six", tmp_path / "other")
