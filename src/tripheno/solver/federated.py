"""`trip` and `exact` over the members of this process, and `central` as one member."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from tripheno.errors import (
    BadShape,
    EmptyComponent,
    EmptyTensor,
    NotConverged,
    SettingsError,
    SingularGram,
)
from tripheno.exchange.communicator import Communicator, in_clear
from tripheno.solver import hospital, tournament
from tripheno.solver.checkpoints import Store
from tripheno.solver.loop import (
    LoopResult,
    Members,
    Watch,
    brought_into_order,
    first_of,
    run_rounds,
)
from tripheno.solver.messages import SharedFactors, Totals
from tripheno.solver.method import Exact, Method
from tripheno.solver.settings import SolverSettings
from tripheno.solver.solution import Costs, Solution, costs_of, rmse_of
from tripheno.solver.starts import first_factors
from tripheno.solver.tournament_run import Finish, TournamentState, first_state, run_tournament
from tripheno.solver.trip import Trip
from tripheno.tensor.count_tensor import CountTensor, pooled
from tripheno.tensor.factors import (
    best_pairs,
    gram_of_others,
    match_components,
    similarity_matrix,
)
from tripheno.tensor.rows import regular
from tripheno.vocabulary.axis import Axis

EMPTY = 1e-9  # of the largest weight: a component with less was lost on the way


def method_of(settings: SolverSettings, axes: Sequence[Axis] = ()) -> Method:
    """The steps of the method asked for; guides need axes whose codes are known."""
    if settings.method == "trip":
        return Trip(settings, axes)
    if settings.method in ("exact", "central"):
        return Exact(settings, axes)
    raise SettingsError(f"'{settings.method}' is not run in rounds")


def solve_federated(
    tensors: Mapping[str, CountTensor],
    settings: SolverSettings,
    federation: Communicator | None = None,
    *,
    label: str = "",
    start: tuple[np.ndarray, ...] | None = None,
    won: tuple[np.ndarray, ...] = (),
    watch: Watch | None = None,
    store: Store | None = None,
) -> Solution:
    """Run `trip`, `exact` or `central` for the hospitals of this process, on their common axes.

    ``federation`` adds up, in clear if not given; the pooled data of `central` have nobody to hide
    from. ``start`` are first factors other than those that ``settings.seed`` gives; ``won`` is the
    start that won another method's tournament: this one's has no other. ``store`` keeps
    checkpoints, and has the one to go on from.
    """
    settings = settings.with_variant_rules()
    axes = common_axes(tensors)
    given = tensors
    if settings.method == "central":
        tensors = {"central": pooled(list(given.values()))}
        federation = in_clear(tensors)
    federation = federation or in_clear(tensors)
    members = Members.of(federation, dict(tensors), settings, label)
    outcome = None if store is None else store.outcome(members)
    if outcome is None:
        outcome = _solved(members, axes, settings, start=start, won=won, watch=watch, store=store)
        if store is not None:
            store.finished(members, outcome)
    solution = solution_of(outcome, members, axes, settings)
    if settings.method == "central" and len(given) > 1:
        return replace(solution, costs=_cost_of_pooling(solution.costs, given))
    return solution


def _solved(
    members: Members,
    axes: tuple[Axis, ...],
    settings: SolverSettings,
    *,
    start: tuple[np.ndarray, ...] | None,
    won: tuple[np.ndarray, ...],
    watch: Watch | None,
    store: Store | None,
) -> LoopResult:
    """From the start given, from one random start, or from the best of a tournament."""
    factors, method = first_factors(axes, settings), method_of(settings, axes)
    resume = None if store is None else store.resume(members, method)
    keep = None if store is None else store.keeper(members)
    single, first = start is not None or settings.starts == 1, start or factors
    if (single and settings.loss == "squared") or resume is not None:
        return run_rounds(method, members, first, watch, keep=keep, resume=resume)
    totals, _ = members.sum("totals", hospital.begin, factors)
    if totals.nonzeros == 0:
        raise EmptyTensor("The federation's tensor has no cell")
    field_state = None if store is None else store.field_state(members)
    if field_state is None and single:
        field_state = TournamentState(tournament.alone(settings.rank, first))
    elif field_state is None and won:
        field_state = TournamentState(tournament.alone(settings.n_components, won, 0))
    finish = run_tournament(
        members, field_state or first_state(members, axes, settings), totals, settings, watch=watch,
        keep=None if store is None else store.tournament_keeper(members),
    )  # fmt: skip
    if settings.plain:
        return _finished(members, totals, settings, finish)
    finalists, first = finish.finalists, finish.factors
    if settings.guides or settings.bias:  # another problem than theirs: they may begin it
        begun = (led_by(one, factors, settings) for one in (first, *finalists))
        first, *others = (
            first_of(members.federation, f"{members.label}led/{s}", SharedFactors(one)).factors
            for s, one in enumerate(begun)
        )
        finalists = tuple(others)
    found = run_rounds(method, members, first, watch, keep=keep, finalists=finalists)
    return replace(found, start=finish.start)


def _finished(
    members: Members, totals: Totals, settings: SolverSettings, finish: Finish
) -> LoopResult:
    """The tournament's best start, which was fitted to its end, in order and measured."""
    _, singular = regular(gram_of_others(finish.factors))
    factors, measures, _, decided = brought_into_order(
        members, finish.factors, settings, {"stop": finish.quiet.converged, "singular": singular}
    )
    limit = f"the limit of {settings.max_iter} iterations was reached"
    return LoopResult(
        factors, measures, totals, measures.loss, finish.history, decided["stop"],
        Method.at_rest if decided["stop"] else limit,
        singular=decided["singular"],
        seconds_shared=time.perf_counter() - members.started - members.seconds,
        finalists=finish.finalists,
        start=finish.start,
    )  # fmt: skip


def led_by(
    best: tuple[np.ndarray, ...], first: tuple[np.ndarray, ...], settings: SolverSettings
) -> tuple[np.ndarray, ...]:
    """The tournament's best as a start of a problem with more to it.

    A bias begins flat. Guided components begin from their codes, instead of those of the best that
    are most like them.
    """
    guided = len(settings.guides)
    if guided:
        alike = similarity_matrix(tuple(f[:, :guided] for f in first), best)
        _, taken = best_pairs(alike)
        rest = [r for r in range(settings.n_components) if r not in taken]
        best = tuple(
            np.column_stack([f[:, :guided], b[:, rest]]) for f, b in zip(first, best, strict=True)
        )
    if settings.bias:
        best = tuple(np.column_stack([b, f[:, -1:]]) for f, b in zip(first, best, strict=True))
    return best


def _cost_of_pooling(costs: Costs, tensors: Mapping[str, CountTensor]) -> Costs:
    """The central model's traffic is the patients' cells: four bytes an index and a count."""
    sent = [tensor.nonzeros * 4 * (len(tensor.shape) + 1) for tensor in tensors.values()]
    return costs._replace(
        bytes_up_per_hospital=max(sent), bytes_down_per_hospital=0, bytes_total=sum(sent)
    )


def solution_of(
    outcome: LoopResult, members: Members, axes: tuple[Axis, ...], settings: SolverSettings
) -> Solution:
    """The outcome in a reader's terms, with every warning said aloud."""
    shown = settings.n_components
    weights = np.sqrt(np.maximum(np.diag(outcome.measures.patient_gram)[:shown], 0.0))
    notes, match = _warn(outcome, weights, settings), _agreement(outcome, shown, settings)
    return Solution(
        settings=settings,
        axes=axes,
        factors=tuple(np.ascontiguousarray(factor[:, :shown]) for factor in outcome.factors),
        weights=weights,
        bias=tuple(factor[:, shown] for factor in outcome.factors) if settings.bias else None,
        objective=outcome.objective,
        rmse=rmse_of(outcome.measures, outcome.totals, [axis.size for axis in axes]),
        history=outcome.history,
        converged=outcome.converged,
        stopped_because=outcome.stopped_because,
        costs=costs_of(members.federation, outcome.seconds_shared),
        patients=int(outcome.totals.patients),
        nonzeros=int(outcome.totals.nonzeros),
        null_loss=outcome.totals.null_loss,
        notes=notes,
        guided=outcome.guided,
        finalists=outcome.finalists,
        start=outcome.start,
        patient_factors={name: state.patients for name, state in members.states.items()},
        restart_match=tuple(float(one) for one in match.mean(axis=1)) if len(match) > 1 else (),
        component_match=tuple(float(one) for one in match.min(axis=0)) if len(match) > 1 else (),
    )


def _agreement(outcome: LoopResult, shown: int, settings: SolverSettings) -> np.ndarray:
    """Finalists × components: how alike each is to its partner in the result.

    None where more is asked than the tournament's own problem: `weigh` fits them on and compares.
    """
    best = tuple(factor[:, :shown] for factor in outcome.factors)
    ended = outcome.finalists if settings.nothing_more else ()
    found = [match_components(best, other).similarity for other in ended]
    return np.array(found).reshape(len(found), shown)


def _warn(outcome: LoopResult, weights: np.ndarray, settings: SolverSettings) -> tuple[str, ...]:
    """Say what deserves a second look, as Python warnings and as notes in the result."""
    found: list[Warning] = []
    if not outcome.converged and settings.variant != "released":
        found.append(
            NotConverged(
                f"{settings.method} did not converge: {outcome.stopped_because}. Raise max_iter."
            )
        )
    if outcome.singular:
        found.append(
            SingularGram(
                f"{settings.method}: two components coincided, so a small ridge was added to the "
                "normal equations. Fewer components may describe the data as well."
            )
        )
    empty = int((weights <= EMPTY * weights.max(initial=0.0)).sum())
    if empty:
        more = "another seed, or more starts" if settings.starts == 1 else "another seed"
        found.append(
            EmptyComponent(
                f"{settings.method}: this start lost {empty} of {len(weights)} components; that "
                f"says nothing about the data. Try {more}."
            )
        )
    for warning in found:
        warnings.warn(warning, stacklevel=4)
    return tuple(str(warning) for warning in found)


def common_axes(tensors: Mapping[str, CountTensor]) -> tuple[Axis, ...]:
    """The axes all hospitals share, or an error if they do not."""
    if not tensors:
        raise SettingsError("There is no hospital", fix="name at least one")
    first, *others = tensors.values()
    if any(other.axes != first.axes for other in others):
        raise BadShape("the hospitals' axes differ", fix="align them first")
    return first.axes
