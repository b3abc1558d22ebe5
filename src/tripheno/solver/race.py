"""The tournament over the hospitals: many starts in the same rounds, then the best to the end.

Whether an iterate is taken back and whether to stop rides as a vote in the first sum of the next
iteration, which is made as if every hospital had said "go on". What that sum gave for a start that
most would take back is not used: it goes back to its best iterate and updates the other modes.
Which starts and columns go on is a sum of its own.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tripheno.solver import starts, tournament
from tripheno.solver.acceleration import extrapolated, no_worse
from tripheno.solver.loop import Members, Watch
from tripheno.solver.loss import Sums
from tripheno.solver.losses import loss_of
from tripheno.solver.messages import Sketch, Totals
from tripheno.solver.settings import SolverSettings
from tripheno.solver.solution import Iteration
from tripheno.solver.stacked import side_by_side, unit_of, widths_of
from tripheno.solver.starts import Factors
from tripheno.solver.stopping import EXACT, Quiet, Tolerances, kkt_residual, movement
from tripheno.solver.tournament import DECISIONS, FINAL, Tournament
from tripheno.tensor.count_tensor import CountTensor
from tripheno.tensor.factors import unit_columns
from tripheno.vocabulary.axis import Axis


@dataclass(frozen=True)
class Race:
    """Where a tournament stands between two iterations; no hospital remembers anything of it.

    ``found`` and ``objectives`` are the last iteration's, not yet taken by ``field``; empty where
    a ballot has just decided.
    """

    field: Tournament
    found: tuple[Factors, ...] = ()
    objectives: tuple[float, ...] = ()
    finalists: tuple[Factors, ...] = ()
    scores: tuple[float, ...] = ()  # Ψ of the finalists
    quiet: Quiet = dataclasses.field(default_factory=Quiet)
    history: tuple[Iteration, ...] = ()

    @property
    def planned(self) -> Tournament:
        """The next field, where nothing is taken back."""
        if not self.found:
            return self.field
        ones = np.ones(len(self.found))
        columns = np.ones(tournament.columns_of(self.field))
        decision = tournament.Votes(ones, ones, columns)
        return tournament.after(self.field, self.found, np.array(self.objectives), decision)


@dataclass(frozen=True)
class Finish:
    """The best start, fitted so far; and the finalists beside it."""

    factors: Factors
    objective: float
    finalists: tuple[Factors, ...]
    scores: tuple[float, ...]
    quiet: Quiet
    history: tuple[Iteration, ...]


def first_race(members: Members, axes: Sequence[Axis], settings: SolverSettings) -> Race:
    """All contestants, from the sketch that the hospitals add up."""
    rank, seed = settings.n_components, settings.seed
    omega = starts.sketch_matrix(axes, rank, seed)
    cuts = np.cumsum([axis.size for axis in axes])[:-1]

    def sketched(name: str) -> Sketch:
        made = starts.sketch(members.states[name].tensor, omega)
        return Sketch(tuple(np.ascontiguousarray(part) for part in np.split(made, cuts)))

    total = members.federation.sum(f"{members.label}sketch", sketched).value
    root = starts.nystrom(np.vstack(total.sketch), omega, rank)
    field = tournament.opened(axes, root, rank, seed, settings.starts)
    return Race(tournament.opened_alike(field, members.federation, members.label))


def run_race(
    members: Members,
    race: Race,
    totals: Totals,
    settings: SolverSettings,
    *,
    watch: Watch | None = None,
    keep: Callable[[Race], None] | None = None,
) -> Finish:
    """The tournament; where its problem is the one asked for, the best start goes on to its end."""
    course = _Course(members, totals, settings)
    most = FINAL + settings.max_iter
    while True:
        if keep is not None:
            keep(race)
        over = race.planned.over
        if over and not settings.plain:
            break
        if over and race.planned.iteration >= most:
            break
        after = course.iteration(race)
        if after is None:
            break
        race = after
        if watch is not None:
            watch(race.history[-1])
    best = race.planned.best.momentum
    return Finish(
        best.factors, best.objective, race.finalists, race.scores, race.quiet, race.history
    )


@dataclass
class _Course:
    """What does not change from one iteration to the next."""

    members: Members
    totals: Totals
    settings: SolverSettings

    def __post_init__(self) -> None:
        self.tensors: dict[str, CountTensor] = {
            name: state.tensor for name, state in self.members.states.items()
        }
        self.unit = unit_of(self.totals.null_loss)
        # the tournament's problem is the plain one, whatever else is asked for later
        self.loss = loss_of(replace(self.settings, constraint="nonnegative"))
        self.known: dict[tuple[str, int], np.ndarray] = {}  # rows to begin the next fit with

    def iteration(self, race: Race) -> Race | None:
        """Every mode once for all contestants, then the ballot where one is due; None: the end."""
        field = race.planned
        votes = {
            f"back {s}": not no_worse(objective, one.momentum.objective)
            for s, (one, objective) in enumerate(
                zip(race.field.contestants, race.objectives, strict=False)
            )
        }
        if field.over and self.settings.plain:
            votes["stop"] = race.quiet.converged
        models = [self.loss.inside(one.point, one.momentum.factors) for one in field.contestants]
        patients = {name: self._fitted(name, field, models) for name in self.tensors}
        total, decided = self._sum(field, models, patients, 0, votes)
        if decided.get("stop"):
            return None
        back = [s for s in range(len(models)) if decided.get(f"back {s}")]
        if back:
            field = _taken_back(race, field, back)
            for s in back:
                models[s] = field.contestants[s].point
                for name, tensor in self.tensors.items():
                    (patients[name][s],) = self.loss.fit_patients(
                        tensor, [models[s]], [patients[name][s]]
                    )
        objectives = np.array([one.momentum.objective for one in field.contestants])
        slopes = np.zeros(len(models))
        loss, null, widths = self.loss, self.totals.null_loss, widths_of(models)
        for n in range(len(models[0])):
            if n > 0:
                total, _ = self._sum(field, models, patients, n, {})
            costs = []
            for s, sums in enumerate(loss.sums(total, widths, null)):
                costs.append(np.zeros(widths[s]))
                if n == 0 and s in back:
                    continue
                model = models[s]
                slopes[s] = max(slopes[s], self._residual(model, n, sums))
                factor = loss.step(model, n, sums)
                objectives[s] = loss.reached(model, n, sums, factor)
                costs[s] = loss.removal_costs(model, n, sums, factor)
                unit, lengths = unit_columns(factor)
                models[s] = (*model[:n], unit, *model[n + 1 :])
                for own in patients.values():
                    own[s] = own[s] * lengths
        for name, own in patients.items():
            numbers = [(name, one.number) for one in field.contestants]
            self.known.update(zip(numbers, own, strict=True))
        return self._after(race, field, models, objectives, costs=costs, slopes=slopes)

    def _residual(self, model: Factors, n: int, sums: Sums) -> float:
        """How far from an end a model is in one mode, before its step."""
        gradient, pull = self.loss.gradient(model, n, sums), self.loss.pull(model, n, sums)
        return kkt_residual(model[n], gradient, pull, smallest=self.loss.smallest)

    def _fitted(self, name: str, field: Tournament, models: Sequence[Factors]) -> list[np.ndarray]:
        """The patients' rows of every model, from those of the last iteration where they fit."""
        known = [self.known.get((name, one.number)) for one in field.contestants]
        same = [
            rows is not None and rows.shape[1] == width
            for rows, width in zip(known, widths_of(models), strict=True)
        ]
        before = [rows for rows in known if rows is not None] if all(same) else None
        return self.loss.fit_patients(self.tensors[name], models, before)

    def _sum(
        self,
        field: Tournament,
        models: Sequence[Factors],
        patients: dict[str, list[np.ndarray]],
        n: int,
        votes: dict[str, bool],
    ) -> tuple[Any, dict[str, bool]]:
        federation, label = self.members.federation, self.members.label
        return federation.sum(
            f"{label}starts/{field.iteration}/{n}/0",
            lambda name: self.loss.contribution(
                self.tensors[name], models, patients[name], n, unit=self.unit
            ),
            votes=votes,
            shared=side_by_side(models),
        )

    def _after(
        self,
        race: Race,
        field: Tournament,
        found: Sequence[Factors],
        objectives: np.ndarray,
        *,
        costs: Sequence[np.ndarray],
        slopes: np.ndarray,
    ) -> Race:
        """The iteration in the history; the ballot; how quiet it has become."""
        known = np.array([one.momentum.objective for one in field.contestants])
        standing = np.minimum(objectives, known)
        narrow = [one.width == field.rank for one in field.contestants]
        history = (*race.history, self._line(len(race.history) + 1, float(standing[narrow].min())))
        if field.over:
            (one,) = field.contestants
            # also where it will be taken back: at an end Ψ rises and falls by round-off alone
            moved = movement(one.momentum.factors, found[0])
            allowed = Tolerances(self.settings.tol, exact=EXACT * self.totals.null_loss)
            quiet = race.quiet.after(float(objectives[0]), list(slopes), moved, allowed)
            return replace(
                race, field=field, found=tuple(found), objectives=tuple(map(float, objectives)),
                quiet=quiet, history=history,
            )  # fmt: skip
        if field.iteration + 1 not in DECISIONS:
            return replace(
                race, field=field, found=tuple(found), objectives=tuple(map(float, objectives)),
                history=history,
            )  # fmt: skip
        own = tournament.votes(field, objectives, costs)
        step = f"{self.members.label}ballot/{field.iteration}"
        total = self.members.federation.sum(step, lambda _name: own).value
        decision = tournament.decided(field, total, self.members.federation.size)
        finalists, scores = race.finalists, race.scores
        if field.iteration + 1 == FINAL:
            finalists = tuple(
                model if decision.accept[s] else field.contestants[s].momentum.factors
                for s, model in enumerate(found)
            )
            scores = tuple(map(float, standing))
        return Race(
            tournament.after(field, found, objectives, decision),
            finalists=finalists, scores=scores, history=history,
        )  # fmt: skip

    def _line(self, number: int, objective: float) -> Iteration:
        seconds = time.perf_counter() - self.members.started
        return Iteration(number, objective, None, None, None, self.members.sent, seconds)


def _taken_back(race: Race, field: Tournament, back: Sequence[int]) -> Tournament:
    """The field with these contestants at their best iterate again, their steps shorter."""
    contestants = list(field.contestants)
    for s in back:
        one = race.field.contestants[s]
        momentum, point = extrapolated(
            one.momentum, race.found[s], race.objectives[s], accept=False
        )
        contestants[s] = replace(one, momentum=momentum, point=point)
    return replace(field, contestants=tuple(contestants))
