"""`exact`: how patients are divided among hospitals changes no total; `trip`: it does."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kit.planted import RANK, planted
from tripheno.evaluation.comparison import share_out
from tripheno.lab.attacks.view import watched_run
from tripheno.solver.settings import SolverSettings

pytestmark = pytest.mark.filterwarnings("ignore::tripheno.errors.TriphenoWarning")
divisions = st.tuples(st.integers(2, 6), st.sampled_from([None, 0.9]), st.integers(0, 10**6))


def totals(method, division):
    """Every total of a fit from one start, patients divided anew."""
    hospitals, skew, seed = division
    tensors = share_out(planted(1).together, hospitals, skew, np.random.default_rng(seed))
    chosen = SolverSettings(RANK, method, seed=1, max_iter=4, starts=1, tol=1e-12)
    view = watched_run(tensors, chosen, "plain")
    return {step: arrays for step, arrays in view.tap.totals.items() if step.startswith("fit/")}


def apart(one, other):
    """The largest difference of two runs' totals, each relative to its array."""
    assert list(one) == list(other)
    return max(
        float(np.abs(one[step][name] - array).max() / max(np.abs(array).max(), 1e-300))
        for step, arrays in other.items()
        for name, array in arrays.items()
        if name != "review"
    )


@settings(max_examples=8, deadline=None)
@given(divisions)
def test_totals_of_exact_are_the_same_to_round_off_for_any_division(division):
    assert apart(totals("exact", (3, None, 0)), totals("exact", division)) < 1e-9


@settings(max_examples=4, deadline=None)
@given(divisions.filter(lambda one: one[0] != 3))
def test_totals_of_trip_are_not(division):
    assert apart(totals("trip", (3, None, 0)), totals("trip", division)) > 1e-3
