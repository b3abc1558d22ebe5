"""Attacks on ourselves: they succeed on the paper's protocol in clear, and find nothing in ours."""

from __future__ import annotations

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from tripheno.cli import attack as command
from tripheno.cli.main import app
from tripheno.evaluation.self_attack import UNDER_TEST, arena_of, synthetic_hospitals
from tripheno.privacy.attacks.code_lists import attack_alignment
from tripheno.privacy.attacks.equations import Recovered
from tripheno.privacy.attacks.people import area_under_curve, mean_share, share_of
from tripheno.privacy.attacks.records import reconstruct
from tripheno.privacy.attacks.suite import Configuration, attack, paper_in_clear, site_level
from tripheno.report.attack_chart import attack_chart
from tripheno.solver.settings import SolverSettings

pytestmark = pytest.mark.filterwarnings("ignore::tripheno.errors.TriphenoWarning")


@pytest.fixture(scope="module")
def arena():
    return arena_of(synthetic_hospitals(3, 0), 0, sums="secure")


@pytest.fixture(scope="module")
def findings(arena):
    """The shipped set-up: three hospitals, more than 2,000 patients, trip under secure sums."""
    setup = Configuration(UNDER_TEST, SolverSettings(), "secure", "tokens")
    return attack(setup, arena)


def of(findings, setup, words):
    return [one for one in findings if one.setup == setup and words in one.attack]


PAPER = paper_in_clear(SolverSettings()).name


def test_the_papers_protocol_gives_codes_products_and_records_away(findings):
    lists = of(findings, PAPER, "code lists")
    assert [one.by for one in lists] == ["server", "another hospital"]
    assert all(one.value >= 0.99 and "0 wrong" in one.note for one in lists)
    (mttkrp,) = of(findings, PAPER, "MTTKRP")
    assert mttkrp.value <= 1e-6
    (records,) = of(findings, PAPER, "whole records")
    assert records.value == 1.0
    (single,) = of(findings, PAPER, "single patient")
    assert single.value == 1.0
    (where,) = of(findings, PAPER, "attribution")
    assert where.low > where.chance


def test_ours_gives_no_code_no_product_no_record_and_no_place(findings, arena):
    assert sum(t.patients for t in arena.inside.values()) >= 2_000
    assert site_level(findings, UNDER_TEST) == []
    assert all(one.value == 0.0 for one in of(findings, UNDER_TEST, "code lists"))
    (mttkrp,) = of(findings, UNDER_TEST, "MTTKRP")
    assert mttkrp.value > 1.0
    (where,) = of(findings, UNDER_TEST, "attribution")
    assert where.low <= where.chance <= where.high
    (network,) = of(findings, UNDER_TEST, "membership in the network")
    assert network.value <= 0.65
    assert abs(network.null_control - 0.5) < 0.1


def test_exact_in_clear_fails_the_test_under_masks_it_passes(arena):
    settings = SolverSettings(method="exact")
    plain = attack(Configuration(UNDER_TEST, settings, "plain", "tokens"), arena)
    assert {"MTTKRP of a hospital", "Gram matrix of a hospital"} <= {
        one.attack for one in site_level(plain, UNDER_TEST)
    }
    masked = attack(Configuration(UNDER_TEST, settings, "secure", "vocabulary"), arena)
    assert site_level(masked, UNDER_TEST) == []


@pytest.mark.parametrize(("kind", "share"), [("polynomial", 1.0), ("tokens", 0), ("vocabulary", 0)])
def test_code_lists_fall_to_a_dictionary_only_as_polynomials(kind, share):
    lists = {
        name: {"d": tuple(f"{n}" for n in range(k, 60, 2 + k))} for k, name in enumerate("abc")
    }
    server, peer = attack_alignment(kind, lists, 1)
    assert (server.share, peer.share) == (share, share)
    assert server.wrong == peer.wrong == 0


@pytest.mark.parametrize("seed", range(4))
def test_records_nested_in_others_are_told_apart(seed):
    rng = np.random.default_rng(seed)
    true = [({1, 2}, {5}), ({3}, {5, 6, 7}), ({1, 4, 8}, {9}), ({11}, {2, 9})]
    true = [(frozenset(a), frozenset(b)) for a, b in true]
    first, second, after = rng.random((12, 6)), rng.random((12, 6)), rng.random((12, 6))
    patients = rng.random((4, 6))
    drugs, diseases = np.zeros((12, 6)), np.zeros((12, 6))
    for row, (a, b) in zip(patients, true, strict=True):
        drugs[sorted(a)] += row * second[sorted(b)].sum(axis=0)
        diseases[sorted(b)] += row * after[sorted(a)].sum(axis=0)
    gram = np.eye(6)
    found = reconstruct(
        Recovered(drugs, gram, (first, second)), Recovered(diseases, gram, (after, second))
    )
    assert set(found.records) == set(true)
    noise = Recovered(rng.normal(size=(12, 6)), gram, (first, second))
    assert reconstruct(noise, noise).records == ()


def test_intervals_hold_what_they_should():
    rng = np.random.default_rng(0)
    same = area_under_curve(rng.normal(size=300), rng.normal(size=300))
    assert same.low < 0.5 < same.high
    assert area_under_curve(np.ones(5), np.zeros(5)).value == 1.0
    third = share_of(100, 300, 1 / 3)
    assert third.low < 1 / 3 < third.high
    assert mean_share([third, third]).value == third.value


def test_the_command_says_so_draws_it_and_exits_1_when_a_hospital_is_recovered(
    tmp_path, monkeypatch, findings, arena
):
    monkeypatch.setattr("tripheno.evaluation.self_attack.synthetic_hospitals", lambda k, s: {})
    monkeypatch.setattr("tripheno.evaluation.self_attack.arena_of", lambda *a, **k: arena)
    monkeypatch.setattr("tripheno.privacy.attacks.suite.attack", lambda *a: findings)
    done = CliRunner().invoke(app, ["audit", "attack", "--out", str(tmp_path)])
    assert done.exit_code == 0, done.output
    assert "Nothing of one hospital was recovered" in done.stdout
    assert "under test" in (tmp_path / "attack.svg").read_text(encoding="utf-8")
    assert json.loads((tmp_path / "attack.json").read_text(encoding="utf-8"))["ok"] is True
    paper = [
        one if one.setup != PAPER else type(one)(**{**one.__dict__, "setup": UNDER_TEST})
        for one in findings
    ]
    monkeypatch.setattr("tripheno.privacy.attacks.suite.attack", lambda *a: paper)
    done = CliRunner().invoke(app, ["audit", "attack", "--format", "json"])
    assert done.exit_code == 1
    assert "MTTKRP of a hospital" in json.loads(done.stdout)["recovered"]
    assert command.attack.__doc__


def test_the_figure_has_a_line_for_every_attack(findings):
    chart = attack_chart(findings, PAPER, UNDER_TEST).to_dict()
    rows = next(iter(chart["datasets"].values())) if "datasets" in chart else None
    rows = rows or chart["data"]["values"] if "data" in chart else rows
    rows = rows or chart["layer"][0]["data"]["values"]
    assert {row["setup"] for row in rows} == {PAPER, UNDER_TEST}
    assert all(0 <= row["recovered"] <= 1 for row in rows)
