"""What must hold of phenotypes, by the benchmarks that print it: a slice here, all in the grids."""

from __future__ import annotations

import importlib

import numpy as np
import pytest

SEEDS = {"one seed": 1, "ten seeds": 10}
some = pytest.mark.parametrize(
    "seeds", [1, pytest.param(10, marks=pytest.mark.verify)], ids=list(SEEDS)
)
claims = importlib.import_module("benchmarks.claims")
evidence = importlib.import_module("benchmarks.evidence")


def over(function, seeds):
    return np.sum([function(seed) for seed in range(seeds)], axis=0)


@some
def test_what_stands_above_the_noise_is_found_and_most_of_it_is_stable(seeds):
    floor, found, held = over(claims.planted_found, seeds)
    assert floor >= 5 * seeds
    assert found >= 0.95 * floor
    assert held >= 0.8 * floor


@some
def test_those_said_to_have_a_phenotype_have_it_and_those_who_show_it_are_found(seeds):
    said, right, shown, found = over(claims.who_has_one, seeds)
    assert right >= 0.95 * said
    assert found >= 0.9 * shown > 0


@some
def test_hospitals_are_said_to_differ_in_what_one_of_them_lacks(seeds):
    told, lacking = over(claims.differ_in_truth, seeds)
    assert told >= 0.9 * lacking > 0


@pytest.mark.verify
@pytest.mark.parametrize("name", ["eicu", "mimic-dx", "mimic-lab"])
def test_of_twenty_random_splits_at_most_one_phenotype_in_twenty_is_claimed(name, shared_data):
    whole = evidence.patients_of(name, shared_data("ATTRIBUTION.md").parent)
    told, asked = claims.falsely_claimed(whole)
    assert told <= 0.05 * asked


@pytest.mark.verify
def test_everything_large_that_synthea_shows_somebody_has(shared_data):
    whole = evidence.patients_of("synthea", shared_data("ATTRIBUTION.md").parent)
    empty, _, some_have = claims.large_and_empty(whole, 0)
    assert empty == 0
    assert some_have >= 0.7 * whole.patients


@pytest.mark.verify
@pytest.mark.parametrize("name", [*evidence.SOURCES, "planted-hard"])
def test_ten_default_studies_end_near_the_best_and_what_they_call_stable_comes_back(
    name, shared_data, tmp_path
):
    root = shared_data("ATTRIBUTION.md").parent
    for row in evidence.measured(name, root, 10, 10, tmp_path / "kept.json"):
        assert evidence.broken(row) == [], row
