"""Attacks on ourselves: they succeed on the paper's protocol and the first version, not on ours."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from kit.planted import RANK, planted
from tripheno.cli import attack as command
from tripheno.cli.main import app
from tripheno.lab.attack_chart import attack_chart
from tripheno.lab.attacks.code_lists import attack_alignment
from tripheno.lab.attacks.equations import Reconstruction
from tripheno.lab.attacks.finding import FIRST_VERSION, Finding
from tripheno.lab.attacks.obedient import asked, believes_a_forged_log
from tripheno.lab.attacks.people import area_under_curve, mean_share, share_of
from tripheno.lab.attacks.records import reconstruct
from tripheno.lab.attacks.suite import (
    PAPER,
    Configuration,
    attack,
    attack_messages,
    site_level,
)
from tripheno.lab.attacks.view import watched_run
from tripheno.lab.self_attack import UNDER_TEST, arena_of, synthetic_hospitals
from tripheno.solver.settings import SolverSettings

pytestmark = pytest.mark.filterwarnings("ignore::tripheno.errors.TriphenoWarning")


@pytest.fixture(scope="module")
def arena():
    return arena_of(synthetic_hospitals(3, 0), 0)


@pytest.fixture(scope="module")
def findings(arena):
    """The shipped set-up: three hospitals, more than 2,000 patients, blind sums."""
    setup = Configuration(UNDER_TEST, SolverSettings(), "blind", "tokens")
    return attack(setup, arena)


def of(findings, setup, words):
    return [one for one in findings if one.setup == setup and words in one.attack]


def test_the_papers_protocol_gives_codes_products_and_records_away(findings):
    lists = of(findings, PAPER, "code lists")
    assert [one.by for one in lists] == ["coordinator", "another hospital"]
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
    assert abs(where.value - where.chance) < 0.02
    (total,) = of(findings, UNDER_TEST, "a total")
    assert total.value > 1.0
    (network,) = of(findings, UNDER_TEST, "membership in the network")
    assert network.value <= 0.65
    assert abs(network.null_control - 0.5) < 0.1


def test_the_first_versions_server_reads_totals_and_tells_hospitals_apart_by_their_scales(findings):
    (total,) = of(findings, FIRST_VERSION, "a total")
    (steered,) = of(findings, FIRST_VERSION, "by steering")
    assert max(total.value, steered.value) < 1e-12
    (listening,) = of(findings, FIRST_VERSION, "MTTKRP")
    assert listening.value > 1.0


@pytest.mark.parametrize("seed", range(5))
def test_the_first_versions_hospitals_answer_what_they_are_asked(arena, seed):
    found = list(asked(arena.inside, seed))
    counts, few, names, made_up, older, log = found
    assert max(counts.value, made_up.value) < 1e-9
    assert (few.value, names.value, older.value, log.value) == (1.0, 1.0, 1.0, 1.0)
    assert {one.setup for one in found} == {FIRST_VERSION}
    assert not believes_a_forged_log(seed, pinned=True)


@pytest.mark.parametrize("method", ["exact", "trip"])
def test_in_clear_it_fails_the_test_under_blind_sums_it_passes(arena, method):
    settings = SolverSettings(method=method)
    plain, blind = (
        list(attack_messages(Configuration(UNDER_TEST, settings, sums, "tokens"), arena))
        for sums in ("plain", "blind")
    )
    assert "MTTKRP of a hospital" in {one.attack for one in site_level(plain, UNDER_TEST)}
    assert site_level(blind, UNDER_TEST) == []


def test_what_hospitals_see_of_each_others_counts_is_reported_as_said(findings):
    coordinator, peer = of(findings, "alignment by vocabulary", "code lists")
    assert coordinator.value == 0.0
    assert (peer.by, peer.succeeded, peer.said) == ("another hospital", True, True)
    assert site_level([replace(peer, setup=UNDER_TEST)], UNDER_TEST) == []


@pytest.mark.parametrize("method", ["exact", "trip"])
def test_the_program_run_again_on_the_totals_has_the_runs_own_factors(method):
    settings = SolverSettings(RANK, method, seed=1, max_iter=3, starts=1)
    view = watched_run(planted(1).hospitals, settings, "blind")
    steps = [step for step in view.tap.totals if step.startswith("fit/")]
    assert [snapshot.step for snapshot in view.snapshots] == steps
    last = view.snapshots[-1].factors
    assert all(np.abs(np.linalg.norm(factor, axis=0) - 1).max() < 1e-9 for factor in last)


@pytest.mark.parametrize(("kind", "share"), [("polynomial", 1.0), ("tokens", 0)])
def test_code_lists_fall_to_a_dictionary_only_as_polynomials(kind, share):
    lists = {
        name: {mode: tuple(f"{n}" for n in range(k, 60, 2 + k)) for mode in ("d", "m")}
        for k, name in enumerate("abc")
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
        Reconstruction(drugs, gram, (first, second)),
        Reconstruction(diseases, gram, (after, second)),
    )
    assert set(found.records) == set(true)
    noise = Reconstruction(rng.normal(size=(12, 6)), gram, (first, second))
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
    monkeypatch.setattr("tripheno.lab.self_attack.synthetic_hospitals", lambda k, s: {})
    monkeypatch.setattr("tripheno.lab.self_attack.arena_of", lambda *a, **k: arena)
    monkeypatch.setattr("tripheno.lab.attacks.suite.attack", lambda *a: list(findings))
    monkeypatch.setattr("tripheno.lab.attacks.peers.attack_as_peer", lambda *a: [])
    lies = Finding("lies", "coordinator", "as shipped", "share", 0.0, False)
    monkeypatch.setattr("tripheno.lab.attacks.hospitals.against_hospitals", lambda seed: lies)
    done = CliRunner().invoke(app, ["audit", "attack", "--out", str(tmp_path)])
    assert done.exit_code == 0, done.output
    assert "Nothing was recovered" in done.stdout
    assert "under test" in (tmp_path / "attack.svg").read_text(encoding="utf-8")
    assert json.loads((tmp_path / "attack.json").read_text(encoding="utf-8"))["ok"] is True
    paper = [
        one if one.setup != PAPER else type(one)(**{**one.__dict__, "setup": UNDER_TEST})
        for one in findings
    ]
    monkeypatch.setattr("tripheno.lab.attacks.suite.attack", lambda *a: paper)
    done = CliRunner().invoke(app, ["audit", "attack", "--format", "json"])
    assert done.exit_code == 1
    assert "MTTKRP of a hospital" in json.loads(done.stdout)["recovered"]
    assert command.attack.__doc__


def test_the_figure_has_a_line_for_every_attack(findings):
    chart = attack_chart(findings, UNDER_TEST).to_dict()
    rows = next(iter(chart["datasets"].values())) if "datasets" in chart else None
    rows = rows or chart["data"]["values"] if "data" in chart else rows
    rows = rows or chart["layer"][0]["data"]["values"]
    assert {row["setup"] for row in rows} == {PAPER, FIRST_VERSION, UNDER_TEST}
    assert all(0 <= row["recovered"] <= 1 for row in rows)
