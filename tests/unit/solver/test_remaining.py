import numpy as np
import pytest

from tripheno.solver.fit import fit
from tripheno.solver.remaining import Outlook, spoken, until
from tripheno.solver.settings import SolverSettings
from tripheno.solver.solution import Iteration
from tripheno.testing.planted import planted


def line(iteration, objective, seconds=None):
    seconds = 2.0 * iteration if seconds is None else seconds
    return Iteration(iteration, objective, None, None, None, 0, seconds)


def settling(factor, iterations, first=0.1):
    """Objectives whose relative change falls by a factor each time."""
    objective = 1.0
    yield 1, objective
    for n in range(1, iterations):
        objective *= 1.0 - first * factor ** (n - 1)
        yield n + 1, objective


def test_a_run_that_settles_evenly_is_foretold_to_the_iteration():
    settings = SolverSettings(3, "exact", tol=1e-6, max_iter=500)
    outlook = Outlook(settings)
    for iteration, objective in settling(0.5, 10):
        forecast = outlook.hear(line(iteration, objective))
    # 0.1 · 0.5ⁿ < 1e-6 from n = 17 on: iterations 19 and 20 are quiet, ten more than now.
    assert forecast.iterations == pytest.approx(10, abs=1)
    assert forecast.seconds == pytest.approx(20.0, abs=2.0)
    assert forecast.most_seconds == pytest.approx(2.0 * 490)


def test_a_run_that_does_not_settle_is_expected_to_go_on_to_its_limit():
    outlook = Outlook(SolverSettings(3, "exact", tol=1e-12, max_iter=40))
    for iteration, objective in settling(1.0, 20):
        forecast = outlook.hear(line(iteration, objective))
    assert forecast.iterations == 20
    assert forecast.seconds == forecast.most_seconds == pytest.approx(40.0)
    assert forecast.in_words() == "about 40 s left"


def test_before_there_is_a_trend_the_limit_is_what_can_be_said():
    outlook = Outlook(SolverSettings(3, "exact", max_iter=100))
    assert outlook.hear(line(1, 1.0)).iterations == 99
    assert outlook.hear(line(2, 0.5)).iterations == 98


def test_residuals_that_are_still_large_keep_a_run_going():
    settings = SolverSettings(3, "trip", tol=1e-3, max_iter=100)
    outlook = Outlook(settings)
    for iteration, objective in settling(0.1, 8):
        outlook.hear_residuals(0.5 * 0.9**iteration, 1e-9)
        forecast = outlook.hear(line(iteration, objective))
    wanted = np.log(settings.residual_tolerance / 0.5) / np.log(0.9) - 8
    assert forecast.iterations == pytest.approx(wanted, abs=1)


def test_a_pause_in_between_does_not_change_the_pace():
    outlook = Outlook(SolverSettings(3, "exact", tol=1e-12, max_iter=20))
    for iteration, objective in settling(1.0, 10):
        seconds = iteration + (600.0 if iteration > 6 else 0.0)
        forecast = outlook.hear(line(iteration, objective, seconds))
    assert forecast.seconds == pytest.approx(10.0)


def test_a_resumed_run_tells_its_lines_again_and_none_counts_twice():
    outlook = Outlook(SolverSettings(3, "exact", tol=1e-6, max_iter=500))
    lines = [line(*pair) for pair in settling(0.5, 10)]
    for one in lines:
        once = outlook.hear(one)
    for one in lines[4:]:
        again = outlook.hear(one)
    assert again.iterations == pytest.approx(once.iterations, abs=1)


def test_what_is_below_already_needs_no_step_and_what_rises_never_comes():
    assert until([1.0, 0.1, 0.01], 0.1) == 0.0
    assert until([1.0, 2.0, 3.0, 4.0, 5.0], 0.1) == float("inf")


@pytest.mark.parametrize("method", ["trip", "exact"])
def test_late_in_a_real_fit_the_forecast_is_of_the_right_size(method):
    settings = SolverSettings(9, method, tol=1e-7, max_iter=2_000, seed=1)
    history = fit(planted(1).hospitals, settings).history
    outlook, left = Outlook(settings), len(history) // 4
    for one in history[:-left]:
        forecast = outlook.hear(one)
    assert left / 3 < forecast.iterations < 3 * left


def test_long_times_are_said_in_minutes_and_hours():
    assert [spoken(s) for s in (12.4, 89.0, 600.0, 9_000.0)] == ["12 s", "89 s", "10 min", "2.5 h"]
