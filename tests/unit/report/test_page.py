from __future__ import annotations

import re
from dataclasses import replace

import pytest

from kit.planted import planted
from tripheno.evaluation.origin import Origin
from tripheno.evaluation.rank import RankChoice, RankEvidence, Recommendation, recommend
from tripheno.report.charts import (
    as_svg,
    code_chart,
    convergence_chart,
    overview_chart,
    prevalence_chart,
    rank_chart,
    residual_chart,
)
from tripheno.report.page import axis_label, reached, render_page
from tripheno.report.phenotypes import Overlap, PhenotypeReview
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


def test_of_one_start_alone_nothing_is_called_stable_and_the_page_says_why(tmp_path):
    federation = assemble(planted(0).hospitals)
    settings = SolverSettings(6, "exact", tol=1e-5, starts=1)
    run_simulation(Simulation(federation, settings, {}, beside=()), tmp_path / "run", 0.0)
    assert read_report(tmp_path / "run").run["evidence"]["stable"] == 0
    page = (tmp_path / "run" / "report.html").read_text()
    assert "No phenotype is called stable, for no other start was tried" in page
    assert "this run tried one start, so that nothing is called stable" in page


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
    few = [replace(one, grade="partly", named=False) for one in report.phenotypes]
    first, *_, then = sentences(replace(report, phenotypes=few))
    assert first == (
        f"No phenotype is stable: {len(few)} came back and rest on too few patients, 0 did not."
    )
    assert then.startswith("Next: nothing to name yet")


def test_of_what_too_few_patients_carry_no_hospital_is_named_and_no_next_step_is_made_up(folder):
    report = read_report(folder)
    few = [replace(one, grade="stable", named=False) for one in report.phenotypes]
    said = sentences(replace(report, phenotypes=few))
    assert "All rest on too few patients for their codes to be shown." in said
    assert said[-1].startswith("Next: nothing to name yet, for too few patients stand behind")
    page = render_page(replace(report, phenotypes=few))
    assert f"{len(few)} more, of too few patients: nothing is said of them." in page
    assert not re.search('<span class="badge kind-|withheld ·|<bdi>northfield</bdi> ', page)
    assert "Codes are shown until" not in page


def test_long_titles_that_differ_at_their_end_differ_on_the_axes_too(folder):
    one = read_report(folder).phenotypes[0]
    start = "acute respiratory failure of unknown cause with "
    labels = [axis_label(replace(one, name=start + end)) for end in ("pneumonia", "sepsis")]
    assert len(set(labels)) == 2
    assert all(len(label) <= len("1. ") + 42 for label in labels)
    assert axis_label(replace(one, name="Sepsis")).endswith(". Sepsis")


def test_pairs_and_numbers_in_a_sentence_cannot_be_read_as_a_list_or_a_count(folder):
    report = read_report(folder)
    alike = [
        replace(one, overlap=Overlap(other, 0.6), prevalence=replace(one.prevalence, total=0))
        for one, other in zip(report.phenotypes, (2, 1, 1, 3), strict=True)
    ]
    said = " ".join(sentences(replace(report, phenotypes=alike)))
    assert "split in two: 1 with 2, 1 with 3 and 3 with 4." in said
    assert "nobody has numbers 1, 2, 3 and 4." in said


def test_what_reviewers_set_aside_is_neither_told_nor_recommended(folder):
    report = read_report(folder)
    for grade in ("stable", "partly"):
        rejected = [
            replace(one, grade=grade, name=f"name {one.number}",
                    review=PhenotypeReview(rejected_by="Ada"))
            for one in report.phenotypes
        ]  # fmt: skip
        *said, last = sentences(replace(report, phenotypes=rejected))
        assert last.startswith("Next: nothing is left to hand on")
        assert not any("“name " in one for one in said)


def test_every_claimed_origin_is_told(folder):
    report = read_report(folder)
    where = ({"a": 0.9, "b": 0.9, "c": 0.1}, {"a": 0.9, "b": 0.9, "c": 0.9},
             {"a": 0.9, "b": 0.1, "c": 0.1}, {"a": 0.1, "b": 0.1, "c": 0.1})  # fmt: skip
    told = [replace(one, grade="stable", origin=Origin(found))
            for one, found in zip(report.phenotypes, where, strict=True)]  # fmt: skip
    said = " ".join(sentences(replace(report, phenotypes=told)))
    assert "1 of them is in several hospitals’ own models." in said
    assert "1 of them is in every hospital’s own model." in said
    assert said.count("Seen only together") == said.count("Particular to one hospital") == 1


def test_a_match_below_a_threshold_is_not_shown_as_the_threshold(folder):
    assert [reached(match) for match in (0.6999, 0.7, 0.9499, 0.95, 1.0, 0.29)] == [
        "0.69", "0.70", "0.94", "0.95", "1.00", "0.29",
    ]  # fmt: skip
    report = read_report(folder)
    shaky = [replace(one, grade="unstable", stability_resamples=0.698, stability=0.949)
             for one in report.phenotypes]  # fmt: skip
    page = render_page(replace(report, phenotypes=shaky))
    assert "resampled patients 0.69, other starts 0.94" in page


def test_two_codes_of_one_name_have_a_bar_each_and_hospitals_their_own_order():
    rows = [{"code": code, "label": label, "mode": "diagnosis", "share": 0.2}
            for code, label in (("A", "sepsis"), ("B", "sepsis"), ("C", "fever"))]  # fmt: skip
    bars = code_chart(rows, "a title").to_dict()["data"]["values"]
    assert [bar["label"] for bar in bars] == [
        "sepsis (diagnosis A)",
        "sepsis (diagnosis B)",
        "fever",
    ]
    shares = [{"phenotype": "1. a", "hospital": name, "share": 0.1} for name in ("west", "east")]
    drawn = as_svg(prevalence_chart(shares), "shares")
    assert drawn.index(">west<") < drawn.index(">east<")
    assert drawn.count(">west<") == 1  # colours and shapes share a legend
