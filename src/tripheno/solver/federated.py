"""`trip` and `exact` over the members of this process, and `central` as one member."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from tripheno.errors import BadShape, EmptyComponent, NotConverged, SettingsError, SingularGram
from tripheno.exchange.communicator import Communicator, in_clear
from tripheno.solver.checkpoints import Store
from tripheno.solver.loop import (
    Members,
    Outcome,
    Watch,
    costs_of,
    first_factors,
    rmse_of,
    run_rounds,
)
from tripheno.solver.method import Exact, Method
from tripheno.solver.settings import SolverSettings
from tripheno.solver.solution import Costs, Solution
from tripheno.solver.trip import Trip
from tripheno.tensor.count_tensor import CountTensor, pooled
from tripheno.vocabulary.axis import Axis


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
    watch: Watch | None = None,
    store: Store | None = None,
) -> Solution:
    """Run `trip`, `exact` or `central` for the hospitals of this process, on their common axes.

    ``federation`` adds up, in clear if not given; the pooled data of `central` have nobody to hide
    from. ``start`` are first factors other than those that ``settings.seed`` gives. ``store`` keeps
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
    factors = start if start is not None else first_factors(axes, settings)
    method = method_of(settings, axes)
    outcome = None if store is None else store.outcome(members)
    if outcome is None:
        resume = None if store is None else store.resume(members, method)
        keep = None if store is None else store.keeper(members)
        outcome = run_rounds(method, members, factors, watch, keep=keep, resume=resume)
        if store is not None:
            store.finished(members, outcome)
    solution = solution_of(outcome, members, axes, settings)
    if settings.method == "central" and len(given) > 1:
        return replace(solution, costs=_cost_of_pooling(solution.costs, given))
    return solution


def _cost_of_pooling(costs: Costs, tensors: Mapping[str, CountTensor]) -> Costs:
    """The central model's traffic is the patients' cells: four bytes an index and a count."""
    sent = [tensor.nonzeros * 4 * (len(tensor.shape) + 1) for tensor in tensors.values()]
    return costs._replace(
        bytes_up_per_hospital=max(sent), bytes_down_per_hospital=0, bytes_total=sum(sent)
    )


def solution_of(
    outcome: Outcome, members: Members, axes: tuple[Axis, ...], settings: SolverSettings
) -> Solution:
    """The outcome in a reader's terms, with every warning said aloud."""
    shown = settings.n_components
    weights = np.sqrt(np.maximum(np.diag(outcome.measures.patient_gram)[:shown], 0.0))
    notes = _warn(outcome, weights, settings)
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
        squared_norm=outcome.totals.squared_norm,
        notes=notes,
        guided=outcome.guided,
        patient_factors={name: state.patients for name, state in members.states.items()},
    )


def _warn(outcome: Outcome, weights: np.ndarray, settings: SolverSettings) -> tuple[str, ...]:
    """Say what deserves a second look, as Python warnings and as notes in the result."""
    found: list[Warning] = []
    if not outcome.converged and settings.variant != "released":
        found.append(
            NotConverged(
                f"{settings.method} did not converge: {outcome.stopped_because}. "
                "Raise max_iter, or loosen tol."
            )
        )
    if outcome.singular:
        found.append(
            SingularGram(
                f"{settings.method}: two components coincided, so a small ridge was added to the "
                "normal equations. Fewer components may describe the data as well."
            )
        )
    empty = int((weights <= 1e-12 * weights.max(initial=0.0)).sum())
    if empty:
        found.append(
            EmptyComponent(
                f"{settings.method}: {empty} of {len(weights)} components are empty. "
                "The data supports fewer."
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
