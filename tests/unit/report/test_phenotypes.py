from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kit.planted import planted
from tripheno.evaluation.grades import grade_for
from tripheno.evaluation.origin import Origin, origins
from tripheno.privacy.labels import shown_positions
from tripheno.privacy.prevalence import prevalence_of, prevalence_of_sums, shown_prevalence
from tripheno.report.models_table import models_table
from tripheno.report.page import percent, signed_percent
from tripheno.report.phenotypes import (
    Evidence,
    Phenotype,
    RankedCode,
    evidence_of,
    from_plain,
    phenotypes_of,
    specificity,
    to_plain,
    weighed_in_words,
)
from tripheno.report.titles import apart, brief, led_apart, readable
from tripheno.solver.settings import SolverSettings
from tripheno.study.evidence import Weighed
from tripheno.study.makers import Maker
from tripheno.study.result import Findings
from tripheno.study.simulation import assemble, own_models, run_method


@pytest.fixture(scope="module")
def solved():
    federation = assemble(planted(0).hospitals)
    settings = SolverSettings(6, "exact", tol=1e-4, starts=4)
    return federation, settings, *run_method(federation, settings, Maker("plain"), resamples=5)


class TestSpecificity:
    def test_it_is_the_codes_share_over_all_phenotypes(self):
        factor = np.array([[0.6, 0.0], [0.8, 0.6], [0.0, 0.8], [0.0, 0.0]])
        found = specificity(factor, np.array([3.0, 1.0]))
        assert found[0].tolist() == [1.0, 0.0]
        assert found[1] == pytest.approx([0.8, 0.2])  # 2.4 of 3.0
        assert found[3].tolist() == [0.0, 0.0]

    def test_a_code_that_every_phenotype_shares_is_less_specific_than_its_weight_suggests(
        self, solved
    ):
        for phenotype in phenotypes_of(solved[2]):
            for codes in phenotype.codes.values():
                assert all(0.0 < code.specificity <= 1.0 for code in codes)


class TestPrevalence:
    def test_a_small_count_is_withheld_with_another_so_that_the_total_does_not_tell_it(self):
        shown = shown_prevalence({"a": 50, "b": 10, "c": 40}, dict.fromkeys("abc", 100))
        assert shown.patients == {"a": 50, "b": None, "c": None}
        assert shown.share == {"a": 0.5, "b": None, "c": None}
        assert (shown.total, shown.total_share) == (100, pytest.approx(1 / 3))
        assert shown.hidden == ("b", "c")

    @pytest.mark.parametrize("count", [1, 10, 90, 99])
    def test_few_with_it_and_few_without_it_are_both_withheld(self, count):
        shown = shown_prevalence({"a": count}, {"a": 100})
        assert shown.patients["a"] is None
        assert shown.total is None
        assert shown.total_share is None

    def test_counts_at_the_threshold_none_and_all_are_shown_with_their_total(self):
        shown = shown_prevalence({"a": 11, "b": 89, "c": 100, "d": 0}, dict.fromkeys("abcd", 100))
        assert shown.patients == {"a": 11, "b": 89, "c": 100, "d": 0}
        assert shown.total == 200

    @settings(deadline=None)
    @given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), min_size=1, max_size=4))
    def test_a_hidden_count_could_be_any_of_eleven_for_all_that_is_shown(self, people):
        sizes = {str(n): have + lack for n, (have, lack) in enumerate(people)}
        counts = {str(n): have for n, (have, _) in enumerate(people)}
        shown = shown_prevalence(counts, sizes)
        small = [n for n, (a, b) in enumerate(people) if 0 < a < 11 or 0 < b < 11]
        assert all(shown.patients[str(n)] is None for n in small)
        if shown.total is None:
            return
        rest = shown.total - sum(n for n in shown.patients.values() if n is not None)
        room = sum(sizes[name] for name in shown.hidden)
        for name in shown.hidden:
            least = max(0, rest - (room - sizes[name]))
            assert min(sizes[name], rest) - least >= min(10, sizes[name])

    def test_the_sum_over_hospitals_is_what_their_patients_give(self, solved):
        _, _, solution, weighed = solved
        own = [having.sum(axis=0) for having in weighed.having.values()]
        assert weighed.carriers == tuple(sum(own))
        found = prevalence_of_sums(weighed.carriers, solution.patients)
        assert [one.total for one in found] == list(weighed.carriers)
        assert found[0].patients == {}

    def test_a_coordinator_shows_no_small_sum(self):
        found = prevalence_of_sums([0, 1, 10, 11, 89, 90, 100, None], 100)
        assert [one.total for one in found] == [0, None, None, 11, 89, None, 100, None]
        assert found[3].total_share == 0.11

    def test_no_small_number_is_in_the_plain_form(self, solved):
        having = solved[3].having
        found = prevalence_of(having)
        counts = {name: own.sum(axis=0) for name, own in having.items()}
        small = [(r, h) for h, c in counts.items() for r, n in enumerate(c) if 0 < n < 11]
        assert all(found[r].patients[hospital] is None for r, hospital in small)
        assert any(one.total for one in found)


class TestOrigin:
    def test_it_is_told_in_words_and_by_kind(self):
        assert Origin({"a": 0.9, "b": 0.8}).kind == "everywhere"
        assert Origin({"a": 0.9, "b": 0.1}).text == "Also found by a alone"
        assert Origin({"a": 0.9, "b": 0.8, "c": 0.1}).text == "Also found by a and b, each alone"
        assert Origin({"a": 0.69, "b": 0.1}).kind == "together"
        assert "do not differ" in Origin({"a": 0.9, "b": 0.1}, differs=False).text

    def test_own_models_say_where_a_phenotype_is_found(self, solved):
        federation, settings, solution, _ = solved
        own = own_models(federation, settings)
        found = origins(solution, own)
        assert not any(one.differs for one in found)
        assert [one.differs for one in origins(solution, own, np.arange(6) == 2)].index(True) == 2
        assert list(own) == list(federation.tensors)
        assert max(max(one.similarity.values()) for one in found) > 0.9

    def test_the_table_holds_every_phenotype_of_every_model_once(self, solved):
        federation, settings, solution, _ = solved
        own = own_models(federation, settings)
        table = models_table(solution, None, own, federation.tensors)
        assert table["models"] == ["exact", *federation.tensors]
        for column, name in enumerate(table["models"]):
            ranks = [row["cells"][column]["rank"] for row in table["rows"] if row["cells"][column]]
            assert sorted(ranks) == list(range(1, 7)), name
        assert [row["cells"][0]["rank"] for row in table["rows"][:6]] == list(range(1, 7))

    def test_patients_behind_a_model_beside_it_count_as_in_its_fit(self, solved, monkeypatch):
        federation, _, solution, weighed = solved
        rows = np.vstack(list(solution.patient_factors.values())) ** 2
        counted_alike = rows.sum(axis=0) ** 2 / (rows**2).sum(axis=0)
        r = int(np.argmax(np.abs(counted_alike - weighed.effective)))
        between = (counted_alike[r] + weighed.effective[r]) / 2
        monkeypatch.setattr("tripheno.report.models_table.MIN_CELL", between)
        table = models_table(solution, replace(solution), {}, federation.tensors)
        few = table["rows"][r]["cells"][1]["title"] == f"phenotype {r + 1} of too few patients"
        assert few == (weighed.effective[r] < between)
        assert abs(counted_alike[r] - weighed.effective[r]) > 1


def test_a_phenotype_comes_back_from_json_as_it_was(solved):
    federation, settings, solution, weighed = solved
    evidence = Evidence(
        origins(solution, own_models(federation, settings), np.arange(6) < 3),
        prevalence_of(weighed.having),
        list(solution.component_match),
        **weighed_in_words(weighed),
    )
    for phenotype in phenotypes_of(solution, {0: "<script>"}, evidence):
        assert from_plain(json.loads(json.dumps(to_plain(phenotype)))) == phenotype
        assert phenotype.overlap is not None
        assert phenotype.overlap.number != phenotype.number
        assert phenotype.stability is not None
        assert phenotype.grade == weighed.grades[phenotype.number - 1].grade
        assert phenotype.named
        for codes in phenotype.codes.values():
            for code in codes:
                low, high = code.interval
                assert 0.0 <= low <= code.share + 1e-12
                assert code.share - 1e-12 <= high <= 1.0
        assert set(to_plain(phenotype)) >= {"stability_resamples", "grade", "effective_patients",
                                            "named", "interval"}  # fmt: skip


def test_no_small_number_of_people_is_told_by_an_interval_or_by_those_who_have_none(solved):
    _, _, solution, weighed = solved
    words = {"intervals": [(0.01, 0.02)] * 6}
    hidden, *shown = phenotypes_of(
        solution, None, Evidence(None, prevalence_of_sums([3, *[50] * 5], 700), **words)
    )
    assert hidden.interval is None
    assert all(one.interval == (0.01, 0.02) for one in shown)
    whole = evidence_of(weighed, 5, solution.patients)
    assert whole["stable"] + whole["partly"] + whole["unstable"] == 6
    assert whole["resamples"] == 5
    for without, told in ((3, None), (70, 0.1), (None, None), (0, 0.0)):
        few = evidence_of(Weighed((), without, ()), 5, 700)
        assert (few["share_without"], few["resamples"]) == (told, 0)


def test_no_hospital_is_asked_for_names_of_a_phenotype_that_too_few_carry(solved):
    _, _, solution, weighed = solved
    few = replace(weighed, effective=(10.9, *[50.0] * 5))
    found = Findings(solution, few, {}, 0.0, fewest=11).shown
    first, rest = (
        shown_positions(solution.axes, solution.factors, which) for which in ([0], range(1, 6))
    )
    assert found == rest
    assert any(set(first[mode]) - set(found[mode]) for mode in first)


def test_codes_without_a_name_are_counted_not_guessed(solved):
    solution = solved[2]
    first = phenotypes_of(solution)[0].codes["medication"][0].position
    axis = solution.axes[0]
    codes = list(axis.codes)
    codes[first] = None
    hidden = replace(solution, axes=(replace(axis, codes=tuple(codes)), *solution.axes[1:]))
    phenotype = phenotypes_of(hidden)[0]
    assert phenotype.unknown["medication"].codes == 1
    assert phenotype.unknown["medication"].share == phenotype.codes["medication"][0].share


class TestTitlesAndGrades:
    def phenotype(self, number, codes, **more):
        ranked = tuple(RankedCode(n, c, c, 1.0, share, 1.0) for n, (c, share) in enumerate(codes))
        return Phenotype(number, 1.0, 0.5, {"diagnosis": ranked}, **more)

    def test_no_two_phenotypes_are_titled_alike(self):
        codes = [
            [("fever", 0.5), ("cough", 0.3)],
            [("fever", 0.5), ("rash", 0.3)],
            [("fever", 0.9)],
        ]
        found = led_apart([self.phenotype(n + 1, c) for n, c in enumerate(codes)])
        assert [p.title for p in found] == ["fever with cough", "fever with rash", "fever"]
        twins = led_apart([self.phenotype(n, [("fever", 0.9)]) for n in (1, 2)])
        assert [p.title for p in twins] == ["fever (1)", "fever (2)"]

    def test_a_specific_code_leads_before_a_common_one(self):
        common = RankedCode(0, "saline", "saline", 1.0, 0.5, 0.1)
        telling = RankedCode(1, "insulin", "insulin", 1.0, 0.4, 0.9)
        (found,) = led_apart([Phenotype(1, 1.0, 1.0, {"medication": (common, telling)})])
        assert found.title == "insulin"

    def test_the_worst_evidence_gives_the_grade_and_an_unstable_one_has_no_name_of_its_own(self):
        grades = {(0.92, 0.96): "stable", (0.95, 0.92): "partly", (0.95, 0.75): "partly",
                  (0.95, 0.1): "unstable", (0.1, 0.95): "unstable", (None, 0.95): "partly",
                  (None, 0.5): "unstable"}  # fmt: skip
        for (starts, resamples), grade in grades.items():
            assert grade_for(resamples, starts) == grade
        shaky = self.phenotype(1, [("fever", 0.9)], grade="unstable")
        assert shaky.title == "unstable: fever"
        assert replace(shaky, name="Malaria").title == "unstable: Malaria"

    def test_one_that_too_few_patients_stand_behind_is_not_called_by_its_codes(self):
        few = self.phenotype(3, [("fever", 0.9)], named=False)
        assert few.title == "phenotype 3 of too few patients"
        given = self.phenotype(3, [("fever", 0.9)], named=False, name="Malaria")
        assert given.title == "Malaria"
        assert replace(few, grade="stable", origin=Origin({"a": 0.9, "b": 0.1})).claimed is None
        assert not from_plain(json.loads(json.dumps(to_plain(few)))).named

    def test_fields_of_newer_versions_and_intervals_are_read(self, solved):
        plain = to_plain(phenotypes_of(solved[2])[0])
        plain |= {"grade": "partly", "interval": [0.1, 0.2], "invented_later": 1}
        plain["codes"]["medication"][0] |= {"interval": [0.3, 0.4], "invented_later": 2}
        found = from_plain(json.loads(json.dumps(plain)))
        assert (found.grade, found.interval) == ("partly", (0.1, 0.2))
        assert found.codes["medication"][0].interval == (0.3, 0.4)

    def test_what_is_written_in_capitals_or_as_a_path_is_made_readable(self):
        assert readable("ASPIRIN  EC 81 MG") == "Aspirin ec 81 mg"
        assert readable("COPD") == "COPD"
        heart = "cardiovascular | arrhythmias | atrial fibrillation"
        assert brief(heart) == "atrial fibrillation"
        assert brief(f"{heart} | with rapid response") == "atrial fibrillation, with rapid response"
        assert brief("organ | group | sepsis | sepsis with shock") == "sepsis with shock"
        assert brief("lungs | hypoxemia") == "hypoxemia"

    def test_two_codes_of_a_card_are_never_shown_alike(self):
        names = ("heart | valves | stenosis", "brain | vessels | stenosis", "skin | rash")
        codes = [RankedCode(n, str(n), name, 1.0, 0.1) for n, name in enumerate(names)]
        assert [name for _, name in apart(codes)] == [*names[:2], "rash"]

    def test_without_resamples_few_patients_are_not_pointed_at_either(self):
        weighed = Weighed((40, 40), 0, (10.9, 11.0))
        assert weighed_in_words(weighed)["named"] == [False, True]
        assert weighed_in_words(weighed, fewest=5)["named"] == [True, True]


def test_shares_are_never_shown_as_less_than_nothing():
    assert percent(0.0) == "0 %"
    assert percent(0.0004) == "< 1 %"
    assert percent(0.0004, 1) == "< 0.1 %"
    assert signed_percent(-1e-9) == "0.000 %"
    assert signed_percent(-0.01) == "-1.000 %"
