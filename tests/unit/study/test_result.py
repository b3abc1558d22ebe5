"""What a study releases tells no count of a few people, and hospitals' results are one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tripheno.errors import DriftedApart
from tripheno.evaluation.grades import Graded
from tripheno.evaluation.intervals import Interval
from tripheno.report.phenotypes import evidence_of
from tripheno.solver.settings import SolverSettings
from tripheno.solver.solution import Costs, Iteration, Rmse, Solution
from tripheno.study.evidence import Weighed
from tripheno.study.result import Findings, compared, read_result, released
from tripheno.vocabulary.axis import Axis

SETTINGS = SolverSettings(3)
PATIENTS = 200


def found(carriers=(40, 3, 195), without=30, effective=(35.0, 1.0, 90.0), **solution):
    share = np.array(carriers) / PATIENTS
    rng = np.random.default_rng(0)
    axes = (Axis("medication", 4), Axis("diagnosis", 5))
    given = Solution(
        SETTINGS, axes, tuple(rng.random((axis.size, 3)) for axis in axes), np.ones(3), None, 1.5,
        Rmse(0.1, 0.2, 0.3), (Iteration(1, 1.5, None, None, None, 640, 0.7),), True, "converged",
        Costs(1, 2, 3, 0.1, 0.2, 0.3), PATIENTS, 900, 2.0, notes=("a note",),
    )  # fmt: skip
    grades = tuple(Graded("partly", 0.8, 0.9, n, n >= 11) for n in effective)
    weighed = Weighed(
        tuple(carriers), without, tuple(effective), grades, (),
        Interval(0.9 * share, share),  # the upper end is the count itself
    )  # fmt: skip
    return Findings(replace(given, **solution), weighed, {"medication": 1}, 0.1, fewest=11)


def through(findings, name="harbour"):
    return read_result(released(findings), SETTINGS, name)


def test_a_hidden_count_does_not_follow_from_what_is_released_beside_it():
    told = through(found()).weighed
    assert told.carriers == (40, None, None)  # 3 have it; 5 do not have it
    assert told.effective == (35.0, 0.0, 90.0)
    assert [one.effective_patients for one in told.grades] == [35.0, 0.0, 90.0]
    low, high = told.prevalence
    assert (low[1], high[1]) == (low[2], high[2]) == (0.0, 1.0)
    assert high[0] == pytest.approx(40 / PATIENTS)


@pytest.mark.parametrize(
    ("carriers", "without", "told"),
    [
        ((40, 3), 157, None),  # three are left over, who have the other phenotype
        ((40, 3), 160, 160),  # nobody is: both may be the same people
        ((40, 30), 140, 140),  # nothing is hidden
        ((40, 30), 195, None),  # five have any at all
        ((40, 30), 5, None),
    ],
)
def test_patients_without_a_phenotype_are_told_unless_they_tell_who_has_one(
    carriers, without, told
):
    made = found((*carriers, 0), without, (20.0, 20.0, 0.0))
    made = replace(made, weighed=replace(made.weighed, carriers=carriers, grades=()))
    made = replace(made, weighed=replace(made.weighed, prevalence=None))
    assert through(made).weighed.without == told
    assert evidence_of(made.weighed, 0, PATIENTS, 11)["patients_without"] == told


def test_machines_and_clocks_may_differ_and_nothing_else():
    own = found()
    costs = own.solution.costs._replace(seconds_all_hospitals=9.0)
    history = tuple(line._replace(seconds=3.3, bytes=1) for line in own.solution.history)
    factors = tuple(f * (1.0 + 1e-12) for f in own.solution.factors)
    same = found(costs=costs, history=history, factors=factors, objective=1.5 + 1e-12)
    both = compared({"a": through(own), "b": through(same)})
    assert both.solution.costs.seconds_all_hospitals == pytest.approx(9.2)


WEIGHED = found().weighed
LIES = {
    "factors": found(factors=tuple(f + 1e-6 for f in found().solution.factors)),
    "weights": found(weights=np.array([1.0, 1.0, 2.0])),
    "objective": found(objective=1.4),
    "notes": found(notes=("<b>look here</b>",)),
    "converged": found(converged=False),
    "history": found(history=()),
    "shapes": found(factors=tuple(f[:, :2] for f in found().solution.factors)),
    "carriers": found(carriers=(41, 3, 195)),
    "effective": found(effective=(36.0, 1.0, 90.0)),
    "grades": replace(found(), weighed=replace(WEIGHED, grades=())),
    "interval": replace(found(), weighed=replace(WEIGHED, prevalence=None)),
    "fewest": replace(found(), fewest=12),
    "codes removed": replace(found(), codes_removed={"medication": 2}),
}


@pytest.mark.parametrize("what", LIES)
def test_a_result_that_differs_in_anything_that_was_released_is_refused(what):
    with pytest.raises(DriftedApart, match="a and b released different"):
        compared({"a": through(found()), "b": through(LIES[what])})
