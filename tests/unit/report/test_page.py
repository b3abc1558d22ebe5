from __future__ import annotations

import re
from dataclasses import replace

import pytest

from kit.planted import planted
from tripheno.evaluation.rank import RankChoice, RankEvidence, Recommendation, recommend
from tripheno.report.charts import (
    as_svg,
    convergence_chart,
    overview_chart,
    prevalence_chart,
    rank_chart,
    residual_chart,
)
from tripheno.report.run_folder import read_report
from tripheno.report.simulated import run_simulation
from tripheno.report.summary import sentences
from tripheno.solver.settings import SolverSettings
from tripheno.study.simulation import Simulation, assemble


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("page") / "run"
    federation = assemble(planted(0).hospitals)
    study = Simulation(federation, SolverSettings(4, "trip", tol=1e-4, starts=2), {"a": "f" * 64})
    run_simulation(study, folder, 0.0)
    return folder


def test_the_page_needs_no_network_and_no_script_and_is_small(folder):
    page = (folder / "report.html").read_text()
    assert not re.search(r"<script|src=|https?://|@import|url\(|javascript:| on\w+=", page)
    assert len(page.encode()) < 500_000


def test_every_section_is_there_and_every_link_leads_somewhere(folder):
    page = (folder / "report.html").read_text()
    for name in (
        "overview",
        "phenotypes",
        "models",
        "prevalence",
        "pooled",
        "convergence",
        "left",
        "methods",
    ):
        assert f'<h2 id="{name}"' in page
    targets = set(re.findall(r'href="#([^"]+)"', page))
    assert targets <= set(re.findall(r'id="([^"]+)"', page))
    assert page.count('<svg role="img" aria-label=') == 4


def test_no_count_below_eleven_is_on_the_page(folder):
    page = (folder / "report.html").read_text()
    for phenotype in read_report(folder).phenotypes:
        shown = [n for n in phenotype.prevalence.patients.values() if n is not None]
        assert all(count == 0 or count >= 11 for count in shown)
        assert len(phenotype.prevalence.hidden) != 1 or phenotype.prevalence.total is None
    assert "withheld" in page


def test_a_run_without_others_beside_it_gives_a_shorter_page(tmp_path):
    federation = assemble(planted(0).hospitals)
    settings = SolverSettings(3, "exact", tol=1e-3, starts=1)
    run_simulation(Simulation(federation, settings, {}, beside=()), tmp_path / "run", 0.0)
    page = (tmp_path / "run" / "report.html").read_text()
    assert 'id="models"' not in page
    assert 'id="pooled"' not in page
    assert "own model" not in page


def test_charts_are_altair_charts_with_a_label_and_without_addresses(folder):
    import altair as alt

    history = read_report(folder).history
    evidence = [RankEvidence(r, 0.1 * r, 90.0, 0.9, 1 / r, (1 / r,), 0.9) for r in (2, 3, 4)]
    charts = [
        convergence_chart(history),
        residual_chart(history),
        prevalence_chart([{"phenotype": "1. <a>", "hospital": "h & i", "share": 0.2}]),
        rank_chart(RankChoice(tuple(evidence), recommend(evidence))),
        rank_chart(RankChoice(tuple(evidence), Recommendation(None, "none", ("noise",)))),
    ]
    for chart in charts:
        assert isinstance(chart, alt.TopLevelMixin)
        svg = as_svg(chart, 'a "label" & <more>')
        assert svg.startswith('<svg role="img" aria-label="a &quot;label&quot; &amp; &lt;more>"')
        assert "http" not in svg
        assert "<a>" not in svg
    assert residual_chart([{"iteration": 1, "primal": None, "dual": None}]) is None


def test_a_hospital_whose_shares_are_all_withheld_keeps_its_column_in_the_overview():
    cells = [{"phenotype": "1. a", "code": "x", "share": 0.4}]
    shares = [{"phenotype": "1. a", "hospital": name, "share": share}
              for name, share in (("harbour", 0.2), ("lakeside", None))]  # fmt: skip
    drawn = as_svg(overview_chart(["x"], cells, shares, ["1. a"]), "all")
    assert ">harbour<" in drawn
    assert ">lakeside<" in drawn


def test_what_to_do_next_follows_from_how_sure_it_is(folder):
    report = read_report(folder)

    def last(grade):
        graded = [replace(one, grade=grade) for one in report.phenotypes]
        return sentences(replace(report, phenotypes=graded))[-1]

    assert "run it again with --resamples" in last(None)
    assert "do not name or use these" in last("unstable")
    assert "of the stable ones first" in last("stable")
    assert "of the partly stable ones first" in last("partly")
