"""What hospitals get out of each other's totals: no more than docs/privacy.md says."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tripheno.exchange.communicator import in_clear
from tripheno.lab.attacks import lattice
from tripheno.lab.attacks.finding import SHIPPED
from tripheno.lab.attacks.peers import (
    MANY_STEPS,
    PeerCase,
    halved,
    identification,
    on_chosen_factors,
    resampling,
    rows_of_one_holder,
    sketched,
)
from tripheno.lab.attacks.suite import site_level
from tripheno.lab.attacks.tracing import SIZES, tracing
from tripheno.lab.self_attack import arena_of, network_of, synthetic_hospitals
from tripheno.study.evidence import halves, seeded_generators, shown_in_both

pytestmark = pytest.mark.filterwarnings("ignore::tripheno.errors.TriphenoWarning")
VERIFY = pytest.mark.verify


@pytest.fixture(scope="module")
def inside():
    return arena_of(synthetic_hospitals(3, 0), 0).inside


def many(rank, **more):
    return PeerCase(rank, MANY_STEPS, **more)


@pytest.mark.parametrize(
    "case", [many(4), many(10), many(4, hospitals=5), *(many(4, start=n) for n in (1, 2))], ids=str
)
def test_many_steps_of_trip_identify_a_hospital_and_the_residual_shows_it(inside, case):
    found, exact = identification(inside, 0, [case])
    assert found.value < 1e-6 < 0.05 < found.null_control
    assert float(found.note.removeprefix("residual ")) < 1e-6
    assert found.said
    assert (exact.setup, exact.succeeded) == (SHIPPED, False)


@pytest.mark.parametrize("rank", [4, 10])
def test_one_step_of_trip_gives_the_attack_nothing_and_the_residual_shows_that_too(inside, rank):
    found, _ = identification(inside, 0, [PeerCase(rank, 1)])
    assert found.value > found.null_control
    assert float(found.note.removeprefix("residual ")) > 0.05
    assert not found.succeeded


def test_enough_people_stand_behind_every_row_of_one_other_hospital(inside):
    few = {name: tensor.select_patients(np.arange(60)) for name, tensor in inside.items()}
    before, after = rows_of_one_holder(few)
    assert before.value > 0.0
    assert after.value == 0.0
    *_, usual = rows_of_one_holder(inside)
    assert usual.value == 0.0
    assert int(usual.note.split()[2]) > 10


def test_a_lying_hospital_that_chooses_the_factors_reads_parts_of_single_peoples_records(inside):
    """No rule about codes helps: the page says so, and this is the attack behind the sentence."""
    found = on_chosen_factors(inside, 0)
    assert found.value == 1.0
    assert found.null_control < 0.5
    assert found.said
    alone, cells = (int(word.replace(",", "")) for word in found.note.split() if word[0].isdigit())
    assert 100 < alone < cells


def test_a_half_of_the_patients_shows_no_code_of_a_few_people(inside):
    (found,) = halved(inside, 0)
    assert found.value == 0.0 < found.null_control
    federation, fewest = in_clear(inside), 11
    parts = halves(inside, seeded_generators(0), "rank/0")
    shown = shown_in_both(federation, parts, fewest, "people/halves-0")
    for part in shown:
        people = [np.array([t.people_at_positions()[n] for t in part.values()]) for n in (0, 1)]
        for counts in people:
            others = counts.sum(axis=0) - counts
            assert not ((others > 0) & (others < fewest)).any()
    assert [t.patients for t in shown[0].values()] == [t.patients for t in parts[0].values()]
    assert next(iter(shown[0].values())).axes == next(iter(inside.values())).axes
    before = [one.rounds for one in federation.traffic.values()]
    assert shown_in_both(federation, parts, 1, "people/halves-0") is parts
    assert [one.rounds for one in federation.traffic.values()] == before  # nobody was asked


def test_resampled_patients_fall_where_replicates_are_as_many_and_not_as_shipped(inside):
    found = list(resampling(next(iter(inside.values())), 0))
    shares = {(one.setup, one.attack): one.value for one in found}
    assert all(value == 0.0 for (setup, _), value in shares.items() if setup == SHIPPED)
    assert shares["not used", next(n for s, n in shares if "lattice" in n and "whole" in n)] > 0.5
    zeros = [v for (s, n), v in shares.items() if s != SHIPPED and "zeros" in n]
    assert min(zeros) > 0.5
    continuous = [v for (_, n), v in shares.items() if "lattice" in n and "whole" not in n]
    assert max(continuous) == 0.0
    assert all(one.null_control == 0.0 for one in found)


def test_pairs_of_codes_follow_from_a_sketch_of_whole_counts_and_not_from_ours(inside):
    whole, ours = sketched(inside, 0)
    assert (whole.value, ours.value) == (1.0, 0.0)
    assert whole.said


@pytest.mark.parametrize(
    ("size", "least"),
    [(SIZES[0], 0.75), (SIZES[1], 0.55), pytest.param(SIZES[2], 0.5, marks=VERIFY)],
)
def test_tracing_finds_members_of_small_networks_and_no_more_than_is_said(size, least):
    """A weaker attack would prove nothing where there are more patients."""
    found = tracing(lambda patients: network_of(patients, 0), size, 0)
    assert found.low > least
    assert found.said
    assert abs(found.null_control - 0.5) < 0.08  # twice its interval
    louder = replace(found, value=0.99, low=0.97, succeeded=True, said=False)
    assert site_level([found], "under test") == []
    assert site_level([louder], "under test") == [louder]


def test_lattice_reduction_shortens_a_basis_and_keeps_its_lattice():
    rng = np.random.default_rng(0)
    short = np.eye(6) + rng.integers(-1, 2, (6, 6)) * np.tri(6, k=-1)
    mixed = short.copy()
    for n in range(1, 6):
        mixed[n] += rng.integers(-40, 40, n) @ mixed[:n]
    found = lattice.reduced(mixed)
    assert np.linalg.norm(found, axis=1).max() < 0.2 * np.linalg.norm(mixed, axis=1).max()
    turned = found @ np.linalg.inv(mixed)
    assert np.allclose(turned, np.rint(turned), atol=1e-6)
    assert abs(abs(np.linalg.det(np.rint(turned))) - 1.0) < 1e-6
