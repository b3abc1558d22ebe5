"""One hospital's arithmetic differs in its last digits, and the study still ends in equal words.

Everything that one hospital contributes, and every step it takes on a total, is changed by 1e-12 to
1e-11 of itself: a thousand times more than machines differ by, and a different way each time.
"""

import threading
from functools import wraps

import numpy as np
import pytest

from kit.small_study import seated
from tripheno.evaluation import grades, rank
from tripheno.exchange.communicator import DRIFT, Communicator
from tripheno.protocol.agreed import EvidenceSettings
from tripheno.solver import acceleration, loop, method, starts, tournament, tournament_run
from tripheno.solver.settings import SolverSettings
from tripheno.solver.squared import SquaredLoss
from tripheno.study import evidence

LEAST, MOST = 1e-12, 1e-11
ODD = "lakeside"  # the hospital whose machine it is
STEPS = [
    *((SquaredLoss, name) for name in ("step", "reached", "removal_costs", "gradient", "pull")),
    *((tournament_run, name) for name in ("unit_columns", "kkt_residual", "movement")),
    *((method, name) for name in ("penalised_solve", "unit_columns", "kkt_residual", "movement")),
    *((evidence, name) for name in ("unit_columns", "likeness", "core_consistency", "matched")),
    (acceleration, "unit_columns"), (loop, "unit_columns"), (starts, "nystrom"),
    (evidence, "factor_match_score"),
    (tournament, "sketched_start"), (tournament, "uniform_start"),
]  # fmt: skip

pytestmark = pytest.mark.filterwarnings("ignore::tripheno.errors.NotConverged")


class Noise:
    """What is added on the way out of a function, in the thread of one hospital's program."""

    def __init__(self, seed):
        self.seed, self.here, self.changed = seed, threading.local(), 0

    def begin(self):
        """Called in the thread of the odd hospital's program; its officer names no codes."""
        self.here.rng = np.random.default_rng(self.seed)
        return False

    def on(self, value):
        """The value as the odd machine has it: whole numbers are exact on any."""
        rng = getattr(self.here, "rng", None)
        if isinstance(value, tuple | list):
            return type(value)(map(self.on, value))
        if rng is None or not isinstance(value, float | np.ndarray):
            return value
        array = np.asarray(value, dtype=np.float64)
        by = rng.uniform(LEAST, MOST, array.shape) * rng.choice([-1.0, 1.0], array.shape)
        whole = ~np.isfinite(array) | (array == np.rint(array))
        self.changed += int((~whole).sum())
        found = np.where(whole, array, array * (1.0 + by))
        return found if isinstance(value, np.ndarray) else float(found)

    def around(self, made):
        """A function as it is on the odd machine."""

        @wraps(made)
        def found(*given, **named):
            return self.on(made(*given, **named))

        return found


def run(folder, monkeypatch, noise=None, tol=1e-6):
    solver = SolverSettings(n_components=6, seed=1, tol=tol)
    around = seated(folder, alignment="vocabulary", test=False, solver=solver,
                    evidence=EvidenceSettings(10, (2, 3)))  # fmt: skip
    with monkeypatch.context() as patched:
        if noise is not None:
            around.sit(ODD, labels=noise.begin)
            add = Communicator.sum

            def sums(self, step, contribute, **more):
                def made(name):
                    message = contribute(name)
                    return type(message).from_arrays(
                        {part: noise.on(array) for part, array in message.arrays().items()}
                    )

                return add(self, step, made, **more)

            patched.setattr(Communicator, "sum", sums)
            for owner, name in STEPS:
                patched.setattr(owner, name, noise.around(getattr(owner, name)))
        around.run()  # results are compared, word for word, or refused
    return around.ends


def check_one_result(ends):
    first, *others = ends.values()
    for other in others:
        for ours, theirs in zip(first.solution.factors, other.solution.factors, strict=True):
            assert np.array_equal(ours, theirs)
        assert other.solution.stopped_because == first.solution.stopped_because
        assert other.solution.notes == first.solution.notes
        assert len(other.solution.finalists) == len(first.solution.finalists)
        assert other.weighed.grades == first.weighed.grades
        assert other.ranks == first.ranks
        assert other.shown == first.shown


def check_small_noise(noisy, quiet):
    for ours, theirs in zip(noisy.solution.factors, quiet.solution.factors, strict=True):
        assert np.abs(ours - theirs).max() < DRIFT


@pytest.mark.parametrize("seed", [
    1, *(pytest.param(seed, marks=pytest.mark.verify) for seed in range(2, 11)),
])  # fmt: skip
def test_a_default_study_ends_in_step_and_in_equal_words(tmp_path, monkeypatch, seed):
    noise = Noise(seed)
    ends = run(tmp_path, monkeypatch, noise)
    assert noise.changed > 10_000
    check_one_result(ends)


@pytest.mark.parametrize("seed", [
    1, *(pytest.param(seed, marks=pytest.mark.verify) for seed in range(2, 11)),
])  # fmt: skip
def test_bounds_that_lie_on_the_very_numbers_of_a_study_divide_no_hospital(
    tmp_path, monkeypatch, seed
):
    scores, ballot = [], tournament.votes

    def overheard(field, objectives, costs):
        known = [one.momentum.objective for one in field.candidates]
        scores[:] = np.minimum(objectives, known)
        return ballot(field, objectives, costs)

    with monkeypatch.context() as patched:
        patched.setattr(tournament, "votes", overheard)
        quiet = run(tmp_path / "quiet", monkeypatch)[ODD]
    lowest, second = sorted(scores)[:2]
    *_, before, last = (line.objective for line in quiet.solution.history)
    chosen = next(
        one for one in quiet.ranks.evidence if one.rank == quiet.ranks.recommendation.rank
    )
    for owner, name, bound in [
        (tournament_run, "NEAR_BEST", second / lowest - 1.0),
        (grades, "RESAMPLED_FROM", quiet.weighed.grades[0].resamples),
        (grades, "PARTLY_FROM", quiet.weighed.grades[-1].resamples),
        (rank, "STABLE_FROM", chosen.stability),
        (rank, "CONSISTENT_FROM", chosen.core_consistency),
    ]:
        monkeypatch.setattr(owner, name, bound)
    ends = run(tmp_path / "noisy", monkeypatch, Noise(seed), tol=abs(before - last) / last)
    check_one_result(ends)
