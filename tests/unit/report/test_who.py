"""Who has a phenotype: counted at home, added blindly, shown under the thresholds."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient

from kit.planted import planted
from tripheno.dashboard.app import make_app
from tripheno.evaluation.association import association
from tripheno.privacy.subgroups import shown_groups
from tripheno.records.traits import GROUPS, TRAITS, nothing_known, read_traits
from tripheno.report.page import render_page
from tripheno.report.run_folder import read_own_groups, read_report
from tripheno.report.simulated import run_simulation
from tripheno.report.who import outcomes, who_has
from tripheno.solver.settings import SolverSettings
from tripheno.study.simulation import Simulation, assemble
from tripheno.study.subgroups import counted_groups, groups_of


@pytest.fixture
def site(tmp_path):
    """Four patients: a girl, a man who died, one hidden as 300 years old, one without anything."""
    (tmp_path / "local").mkdir()
    times = pa.array([np.datetime64(day, "us") for day in
                      ("2009-01-01", "2016-05-01", "2012-03-01", "2014-07-01")])  # fmt: skip
    events = {"patient": [0, 0, 1, 2], "window": [0, 1, 2, 3], "time": times,
              "mode": ["d"] * 4, "code": ["x"] * 4}  # fmt: skip
    pq.write_table(pa.table(events), tmp_path / "events.parquet")
    rows = {"patient": [0, 1, 2, 3], "birth_year": pa.array([2000, 1940, 1714, None], pa.int32()),
            "sex": ["female", "male", "unknown", "unknown"],
            "died": pa.array([False, True, False, None])}  # fmt: skip
    pq.write_table(pa.table(rows), tmp_path / "local" / "attributes.parquet")
    return tmp_path


def test_traits_are_those_of_the_last_event_and_what_is_not_known_is_said(site):
    names = [
        [options[place] for options, place in zip(TRAITS.values(), row, strict=True)]
        for row in read_traits(site, 4)
    ]
    assert names == [
        ["0–17", "female", "2015–2019", "did not die"],
        ["65–79", "male", "2010–2014", "died"],
        ["80 and over", "not known", "2010–2014", "did not die"],
        ["not known"] * 4,
    ]


def test_a_site_without_attributes_knows_nothing_of_its_patients(tmp_path):
    assert (read_traits(tmp_path, 3) == nothing_known(3)).all()


def test_a_hospital_counts_every_patient_once_in_every_trait():
    rng = np.random.default_rng(0)
    sizes = [len(names) for names in TRAITS.values()]
    traits = np.column_stack([rng.integers(size, size=50) for size in sizes])
    having = rng.random((50, 3)) < 0.4
    found = counted_groups(traits, having)
    assert found.people.shape == (GROUPS,)
    ends = np.cumsum([0, *sizes])
    for first, last in itertools.pairwise(ends):
        assert found.people[first:last].sum() == 50
        assert (found.having[first:last].sum(axis=0) == having.sum(axis=0)).all()


counts = st.lists(
    st.integers(0, 60).flatmap(lambda size: st.tuples(st.just(size), st.integers(0, size))),
    min_size=2, max_size=4,
)  # fmt: skip


@given(counts)
def test_no_hidden_count_follows_from_the_others_and_the_totals(pairs):
    """Every table of counts that shows the same numbers is tried: a hidden one stays open."""
    sizes, having = [size for size, _ in pairs], [count for _, count in pairs]
    groups = shown_groups({"t": [str(n) for n in range(len(pairs))]}, sizes,
                          [[count] for count in having], 11)  # fmt: skip
    for group, size, count in zip(groups, sizes, having, strict=True):
        shown = group.having[0]
        assert shown is None or not (0 < count < 11 or 0 < size - count < 11)
        assert group.people is None or not 0 < size < 11
        assert shown is None or group.people is not None
    hidden = [n for n, group in enumerate(groups) if group.having[0] is None]
    total, everyone = sum(having), sum(sizes)
    if not hidden or total < 11 or everyone - total < 11:
        return  # nothing to find out, or the total is not shown or says it by itself
    rest = sum(having[n] for n in hidden)
    for n in hidden:
        room = sum(sizes[m] for m in hidden if m != n)
        possible = min(sizes[n], rest) - max(0, rest - room)
        assert possible >= min(10, sizes[n], room)


def test_a_few_of_whom_a_trait_is_not_known_are_counted_with_the_group_before_them():
    traits = nothing_known(100)
    traits[:, 3] = [0] * 40 + [1] * 55 + [2] * 5
    groups = groups_of(counted_groups(traits, np.arange(100)[:, None] % 2 == 0), 11)
    told = {one.name: (one.people, one.having[0]) for one in groups if one.trait == "outcome"}
    assert told == {"died": (40, 20), "did not die or not known": (60, 30)}
    assert [one.people for one in groups if one.name == "not known"] == [100, 100, 100]


def test_a_risk_ratio_and_its_interval_are_those_of_the_textbook():
    found = association(30, 70, 20, 180)
    assert found.risk == 0.3
    assert found.risk_of_others == 0.1
    assert found.ratio == pytest.approx(3.0)
    assert (found.low, found.high) == (
        pytest.approx(1.952, abs=1e-3),
        pytest.approx(4.612, abs=1e-3),
    )
    assert association(0, 5, 5, 5) is None


def test_nine_of_ten_intervals_hold_the_true_ratio():
    rng = np.random.default_rng(1)
    with_it, without = rng.binomial(120, 0.3, 2_000), rng.binomial(400, 0.15, 2_000)
    found = [association(int(a), int(120 - a), int(c), int(400 - c))
             for a, c in zip(with_it, without, strict=True)]  # fmt: skip
    held = np.mean([one.low <= 2.0 <= one.high for one in found])
    assert 0.88 < held < 0.92


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A simulated run whose patients have a sex and an outcome."""
    folder = tmp_path_factory.mktemp("who") / "run"
    federation = assemble(planted(0).hospitals)
    rng = np.random.default_rng(3)
    traits = {}
    for name, tensor in federation.tensors.items():
        own = nothing_known(tensor.patients)
        own[:, [1, 3]] = rng.integers(2, size=(tensor.patients, 2))
        traits[name] = own
    federation = replace(federation, traits=traits)
    study = Simulation(federation, SolverSettings(3, tol=1e-4, starts=2), {"a": "f" * 64})
    run_simulation(study, folder, 0.0)
    return folder, traits


def test_a_simulation_keeps_every_hospital_s_own_table_and_hands_none_on(run):
    """Beside each other and their sum, hidden counts would follow: they lie in ``local/`` only."""
    folder, traits = run
    own = read_own_groups(folder)
    assert set(own) == set(traits)
    for name, groups in own.items():
        women = next(one for one in groups if one.name == "female")
        assert women.people == int((traits[name][:, 1] == 0).sum())
        summary = f"outcome (<bdi>{name}</bdi>)</summary>"
        assert summary not in (folder / "report.html").read_text()
        client = TestClient(make_app(folder, "t", ["testserver"]), headers={"host": "testserver"})
        client.get("/?token=t")
        assert summary in client.get("/phenotypes").text
        assert summary not in client.get("/phenotypes?blind=1").text
    assert (folder / "local" / "subgroups.json").stat().st_mode & 0o777 == 0o600
    assert (folder / "local").stat().st_mode & 0o777 == 0o700


def test_a_simulation_shows_groups_of_all_patients_and_of_no_single_hospital(run):
    folder, traits = run
    found = read_report(folder).groups
    assert set(found) == {"all hospitals"}
    women = next(one for one in found["all hospitals"] if one.name == "female")
    assert women.people == sum(int((own[:, 1] == 0).sum()) for own in traits.values())
    first = who_has(found, 1)["all hospitals"]
    assert set(first) == {"sex", "outcome"}  # of age and year nothing is known
    page = (folder / "report.html").read_text()
    assert "Who has it, by sex, outcome" in page


def test_no_association_is_claimed_for_an_unstable_phenotype(run):
    folder, _ = run
    report = read_report(folder)
    sure = [replace(p, grade="stable", named=True) for p in report.phenotypes]
    shaky = [replace(p, grade="unstable") for p in sure]
    assert outcomes(report.groups, shaky) == []
    for row in outcomes(report.groups, sure):
        assert row["low"] < row["ratio"] < row["high"]
        (died, have), (others_died, others) = row["having"], row["others"]
        assert row["ratio"] == pytest.approx((died / have) / (others_died / others))
        assert f"{100 * row['risk']:.1f} % ({died:,} of {have:,})" in render_page(
            replace(report, phenotypes=sure)
        )


def test_subgroups_leave_in_one_blind_sum_that_the_audit_log_names(run):
    folder, _ = run
    lines = [json.loads(line) for line in (folder / "audit.jsonl").read_text().splitlines()]
    assert any("subgroups" in json.dumps(line) for line in lines)
