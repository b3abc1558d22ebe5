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
from functools import cached_property
from typing import Any

import numpy as np

from tripheno.exchange.messages import Contribution
from tripheno.exchange.registry import MODELS, declared, shaped
from tripheno.solver import starts, tournament
from tripheno.solver.acceleration import extrapolated, no_worse
from tripheno.solver.loop import Members, Watch, first_of
from tripheno.solver.loss import Sums
from tripheno.solver.losses import loss_of
from tripheno.solver.messages import SIZE_BITS, Sketch, Totals
from tripheno.solver.settings import SolverSettings
from tripheno.solver.solution import Iteration
from tripheno.solver.stacked import side_by_side, unit_of, widths_of
from tripheno.solver.starts import Factors
from tripheno.solver.stopping import EXACT, Quiet, Tolerances, kkt_residual, movement
from tripheno.solver.tournament import DECISIONS, FINAL, Tournament
from tripheno.tensor.count_tensor import CountTensor
from tripheno.tensor.factors import unit_columns
from tripheno.vocabulary.axis import Axis

NEAR_BEST = 0.01  # finalists this close to the lowest Ψ are as good as the best


@declared(
    "tracked", "none: each start's squared error over all patients' nonzero cells",
    lambda plan: plan.fits * (FINAL + plan.iterations) if plan.tracked else 0,
)  # fmt: skip
@dataclass(frozen=True)
class Tracked(Contribution):
    """Σ(x − m)² over nonzero cells of every candidate, all patients alike: where it is asked for.

    A sum of its own, for it needs one more pass over the data.
    """

    errors: np.ndarray = shaped(MODELS, least=SIZE_BITS)


@dataclass(frozen=True)
class TournamentState:
    """Where a tournament stands between two iterations; no hospital remembers anything of it.

    ``found`` and ``objectives`` are the last iteration's, not yet taken by ``field``; empty where
    a ballot has just decided.
    """

    field: Tournament
    found: tuple[Factors, ...] = ()
    objectives: tuple[float, ...] = ()
    finalists: tuple[Factors, ...] = ()  # those as good as the best
    quiet: Quiet = dataclasses.field(default_factory=Quiet)
    history: tuple[Iteration, ...] = ()

    @cached_property
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
    """The best start, fitted so far; and the finalists as good as it."""

    factors: Factors
    objective: float
    finalists: tuple[Factors, ...]
    quiet: Quiet
    history: tuple[Iteration, ...]
    start: Factors = ()  # where the best began; unknown where the tournament was gone on with


def first_state(
    members: Members, axes: Sequence[Axis], settings: SolverSettings
) -> TournamentState:
    """All candidates, from the sketch that the hospitals add up."""
    rank, seed = settings.n_components, settings.seed
    omega = starts.sketch_matrix(axes, rank, seed)
    cuts = np.cumsum([axis.size for axis in axes])[:-1]

    def sketched(name: str) -> Sketch:
        made = starts.sketch(members.states[name].tensor, omega)
        return Sketch(tuple(np.ascontiguousarray(part) for part in np.split(made, cuts)))

    total = members.federation.sum(f"{members.label}sketch", sketched).value
    root = starts.nystrom(np.vstack(total.sketch), omega, rank)
    field = tournament.opened(axes, root, rank, seed, settings.starts)
    return TournamentState(_opened_alike(field, members))


def _opened_alike(field: Tournament, members: Members) -> Tournament:
    """The same field at every hospital: the first one's."""
    own = tournament.Opening(side_by_side(field.models))
    total = first_of(members.federation, f"{members.label}opening", own).starts
    cuts = np.cumsum(widths_of(field.models))[:-1]
    models = zip(*(np.split(factor, cuts, axis=1) for factor in total), strict=True)
    solid = [tuple(np.ascontiguousarray(factor) for factor in model) for model in models]
    return tournament.entered(field.rank, [one.kind for one in field.candidates], solid)


def run_tournament(
    members: Members,
    field_state: TournamentState,
    totals: Totals,
    settings: SolverSettings,
    *,
    watch: Watch | None = None,
    keep: Callable[[TournamentState], None] | None = None,
) -> Finish:
    """The tournament; where its problem is the one asked for, the best start goes on to its end."""
    course = _Course(members, totals, settings)
    most = FINAL + settings.max_iter
    fresh = field_state.field.candidates if field_state.field.iteration == 0 else ()
    began = {one.number: one.point for one in fresh}
    while True:
        if keep is not None:
            keep(field_state)
        over = field_state.planned.over
        if over and not settings.plain:
            break
        if over and field_state.planned.iteration >= most:
            break
        after = course.iteration(field_state)
        if after is None:
            break
        field_state = after
        if watch is not None:
            watch(field_state.history[-1])
    best = field_state.planned.best
    return Finish(
        best.momentum.factors,
        best.momentum.objective,
        field_state.finalists,
        field_state.quiet,
        field_state.history,
        began.get(best.number, ()),
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

    def iteration(self, field_state: TournamentState) -> TournamentState | None:
        """Every mode once for all candidates, then the ballot where one is due; None: the end."""
        field = field_state.planned
        votes = {
            f"back {s}": not no_worse(objective, one.momentum.objective)
            for s, (one, objective) in enumerate(
                zip(field_state.field.candidates, field_state.objectives, strict=False)
            )
        }
        if field.over and self.settings.plain:
            votes["stop"] = field_state.quiet.converged
        models = [self.loss.inside(one.point, one.momentum.factors) for one in field.candidates]
        patients = {name: self._fitted(name, field, models) for name in self.tensors}
        total, decided = self._sum(field, models, patients, 0, votes)
        if decided.get("stop"):
            return None
        back = [s for s in range(len(models)) if decided.get(f"back {s}")]
        if back:
            field = _taken_back(field_state, field, back)
            for s in back:
                models[s] = field.candidates[s].point
                for name, tensor in self.tensors.items():
                    (patients[name][s],) = self.loss.fit_patients(
                        tensor, [models[s]], [patients[name][s]]
                    )
        objectives = np.array([one.momentum.objective for one in field.candidates])
        slopes = np.zeros(len(models))
        loss, null, widths = self.loss, self.totals.null_loss, widths_of(models)
        for n in range(len(models[0])):
            if n > 0:
                total, _ = self._sum(field, models, patients, n, {})
            costs = []
            for s, sums in enumerate(loss.sums(total, widths, null)):
                costs.append(np.zeros(widths[s]))  # nobody asks before a ballot
                if n == 0 and s in back:
                    continue
                model = models[s]
                slopes[s] = max(slopes[s], self._residual(model, n, sums))
                factor = loss.step(model, n, sums)
                objectives[s] = loss.reached(model, n, sums, factor)
                if field.iteration + 1 in DECISIONS:
                    costs[s] = loss.removal_costs(model, n, sums, factor)
                unit, lengths = unit_columns(factor)
                models[s] = (*model[:n], unit, *model[n + 1 :])
                for own in patients.values():
                    own[s] = own[s] * lengths
        for name, own in patients.items():
            numbers = [(name, one.number) for one in field.candidates]
            self.known.update(zip(numbers, own, strict=True))
        errors = self._tracked(field, models, patients)
        return self._after(
            field_state, field, models, objectives, costs=costs, slopes=slopes, errors=errors
        )

    def _tracked(
        self,
        field: Tournament,
        models: Sequence[Factors],
        patients: dict[str, list[np.ndarray]],
    ) -> np.ndarray:
        """Every candidate's RMSE over nonzeros; nothing where it is not asked for."""
        if not (self.settings.track_rmse and self.settings.plain):
            return np.zeros(0)
        total = self.members.federation.sum(
            f"{self.members.label}tracked/{field.iteration}",
            lambda name: Tracked(
                np.array([
                    self.tensors[name].with_weights(None).cells.at_cells(model, rows)[0]
                    for model, rows in zip(models, patients[name], strict=True)
                ])
            ),
        ).value  # fmt: skip
        return np.asarray(np.sqrt(np.maximum(total.errors, 0.0) / self.totals.nonzeros))

    def _residual(self, model: Factors, n: int, sums: Sums) -> float:
        """How far from an end a model is in one mode, before its step."""
        gradient, pull = self.loss.gradient(model, n, sums), self.loss.pull(model, n, sums)
        return kkt_residual(model[n], gradient, pull, smallest=self.loss.smallest)

    def _fitted(self, name: str, field: Tournament, models: Sequence[Factors]) -> list[np.ndarray]:
        """The patients' rows of every model, from those of the last iteration where they fit."""
        known = [self.known.get((name, one.number)) for one in field.candidates]
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
        field_state: TournamentState,
        field: Tournament,
        found: Sequence[Factors],
        objectives: np.ndarray,
        *,
        costs: Sequence[np.ndarray],
        slopes: np.ndarray,
        errors: np.ndarray,
    ) -> TournamentState:
        """The iteration in the history; the ballot; how quiet it has become."""
        known = np.array([one.momentum.objective for one in field.candidates])
        standing = np.minimum(objectives, known)
        least = min(one.width for one in field.candidates)  # a wide start that won goes on alone
        narrow = np.flatnonzero([one.width == least for one in field.candidates])
        rmse = float(errors[narrow].min()) if len(errors) else None
        history = (
            *field_state.history,
            self._line(len(field_state.history) + 1, float(standing[narrow].min()), rmse),
        )
        if field.over:
            (one,) = field.candidates
            # also where it will be taken back: at an end Ψ rises and falls by round-off alone
            moved = movement(one.momentum.factors, found[0])
            allowed = Tolerances(self.settings.tol, exact=EXACT * self.totals.null_loss)
            quiet = field_state.quiet.after(float(objectives[0]), list(slopes), moved, allowed)
            return replace(
                field_state,
                field=field,
                found=tuple(found),
                objectives=tuple(map(float, objectives)),
                quiet=quiet,
                history=history,
            )
        if field.iteration + 1 not in DECISIONS:
            return replace(
                field_state,
                field=field,
                found=tuple(found),
                objectives=tuple(map(float, objectives)),
                history=history,
            )
        own = tournament.votes(field, objectives, costs)
        step = f"{self.members.label}ballot/{field.iteration}"
        last = field.iteration + 1 == FINAL
        near = standing <= (1.0 + NEAR_BEST) * standing.min()
        votes = {f"near {s}": bool(one) for s, one in enumerate(near) if last}
        total, good = self.members.federation.sum(step, lambda _name: own, votes=votes)
        decision = tournament.decided(field, total, self.members.federation.size)
        finalists = tuple(
            model if decision.accept[s] else field.candidates[s].momentum.factors
            for s, model in enumerate(found)
            if good.get(f"near {s}")
        )
        return TournamentState(
            tournament.after(field, found, objectives, decision),
            finalists=finalists, history=history,
        )  # fmt: skip

    def _line(self, number: int, objective: float, rmse: float | None) -> Iteration:
        seconds = time.perf_counter() - self.members.started
        return Iteration(number, objective, rmse, None, None, self.members.sent, seconds)


def _taken_back(field_state: TournamentState, field: Tournament, back: Sequence[int]) -> Tournament:
    """The field with these candidates at their best iterate again, their steps shorter."""
    candidates = list(field.candidates)
    for s in back:
        one = field_state.field.candidates[s]
        momentum, point = extrapolated(
            one.momentum, field_state.found[s], field_state.objectives[s], accept=False
        )
        candidates[s] = replace(one, momentum=momentum, point=point)
    return replace(field, candidates=tuple(candidates))
