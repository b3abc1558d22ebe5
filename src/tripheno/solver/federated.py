"""A federation's members around one channel: `trip` and `exact`, and `central` as one member."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from tripheno.errors import BadShape, EmptyComponent, NotConverged, SettingsError, SingularGram
from tripheno.exchange import (
    Exchange,
    Guard,
    InProcessChannel,
    Listener,
    MakeSums,
    Message,
    Sums,
    plain_sums,
)
from tripheno.exchange.channel import open_door
from tripheno.exchange.sums import Hospital, handler
from tripheno.solver import hospital as steps
from tripheno.solver.diagnosis import AskCore, CountCarriers, Foretell, count_carriers
from tripheno.solver.hospital import HospitalState
from tripheno.solver.loop import Outcome, Watch, costs_of, first_factors, rmse_of, run_rounds
from tripheno.solver.messages import Begin, FactorNews, Finish, Release
from tripheno.solver.server import ExactServer, ServerMethod
from tripheno.solver.settings import SolverSettings
from tripheno.solver.solution import Costs, Solution
from tripheno.solver.trip import TripServer, trip_rules
from tripheno.tensor.count_tensor import CountTensor, pooled
from tripheno.vocabulary.axis import Axis

Step = Callable[[HospitalState, Any], tuple[HospitalState, Message | None]]


class Member:
    """A hospital at work: its state, and the pure step each kind of round calls."""

    def __init__(
        self, name: str, tensor: CountTensor, settings: SolverSettings, sums: Sums
    ) -> None:
        self.state = HospitalState(tensor, settings)
        iterate: Step = steps.normal_equations
        if settings.method == "trip":
            iterate = partial(steps.propose, rules=trip_rules(settings))
        kinds: dict[str, tuple[type, Step]] = {
            "begin": (Begin, steps.begin),
            "iterate": (FactorNews, iterate),
            "review": (FactorNews, steps.review),
            "release": (Release, steps.measure),
            "finish": (Finish, steps.finish),
            "carriers": (CountCarriers, steps.count_carriers),
            "foretell": (Foretell, steps.foretell),
            "core": (AskCore, steps.core),
        }
        handlers = {
            phase: handler(kind, partial(self._take, step)) for phase, (kind, step) in kinds.items()
        }
        self.hospital = Hospital(name, sums, handlers)

    def _take(self, step: Step, broadcast: Any) -> Message | None:
        self.state, answer = step(self.state, broadcast)
        return answer


def server_method(settings: SolverSettings, axes: Sequence[Axis] = ()) -> ServerMethod:
    """The server's half of the method asked for; guides need axes whose codes it knows."""
    if settings.method == "trip":
        return TripServer(settings, axes)
    if settings.method in ("exact", "central"):
        return ExactServer(settings, axes)
    raise SettingsError(f"'{settings.method}' is not run in rounds")


def solve_federated(
    tensors: Mapping[str, CountTensor],
    settings: SolverSettings,
    *,
    sums: MakeSums | None = None,
    start: tuple[np.ndarray, ...] | None = None,
    watch: Watch | None = None,
    listen: Listener | None = None,
    guard: Guard = open_door,
) -> Solution:
    """Run `trip`, `exact` or `central` over hospitals whose tensors share their axes.

    ``sums`` makes the two halves of the sums for this run, plain ones if not given; the pooled data
    of `central` have nothing to hide from themselves, and no door. ``start`` are first factors
    other than the random ones that ``settings.seed`` gives.
    """
    settings = settings.with_variant_rules()
    axes = common_axes(tensors)
    given = tensors
    if settings.method == "central":
        tensors, sums = {"central": pooled(list(given.values()))}, plain_sums
        guard = open_door
    members, exchange = gathered(tensors, settings, sums or plain_sums, listen, guard)
    factors = start if start is not None else first_factors(axes, settings)
    outcome = run_rounds(server_method(settings, axes), exchange, factors, watch)
    carriers = count_carriers(exchange, settings.n_components)
    patients = {name: member.state.patients for name, member in members.items()}
    solution = solution_of(outcome, exchange, axes, settings, patients, carriers=carriers)
    if settings.method == "central" and len(given) > 1:
        return replace(solution, costs=_cost_of_pooling(solution.costs, given))
    return solution


def gathered(
    tensors: Mapping[str, CountTensor],
    settings: SolverSettings,
    sums: MakeSums,
    listen: Listener | None = None,
    guard: Guard = open_door,
) -> tuple[dict[str, Member], Exchange]:
    """Every hospital at its desk behind its door, and the server's view of them."""
    halves, server = sums(tuple(tensors))
    members = {name: Member(name, t, settings, halves[name]) for name, t in tensors.items()}
    responders = {name: guard(name, member.hospital.respond) for name, member in members.items()}
    channel = InProcessChannel(responders, listen)
    return members, Exchange(channel, server)


def _cost_of_pooling(costs: Costs, tensors: Mapping[str, CountTensor]) -> Costs:
    """The central model's traffic is the patients' cells: four bytes an index and a count."""
    sent = [tensor.nonzeros * 4 * (len(tensor.shape) + 1) for tensor in tensors.values()]
    return costs._replace(
        bytes_up_per_hospital=max(sent), bytes_down_per_hospital=0, bytes_total=sum(sent)
    )


def solution_of(
    outcome: Outcome,
    exchange: Exchange,
    axes: tuple[Axis, ...],
    settings: SolverSettings,
    patient_factors: dict[str, np.ndarray],
    *,
    carriers: np.ndarray | None = None,
) -> Solution:
    """The outcome in a reader's terms, with every warning said aloud."""
    shown = settings.n_components
    weights = np.sqrt(np.maximum(np.diag(outcome.measures.patient_gram)[:shown], 0.0))
    notes = _warn(outcome, weights, settings)
    return Solution(
        settings=settings,
        axes=axes,
        factors=tuple(factor[:, :shown] for factor in outcome.factors),
        weights=weights,
        bias=tuple(factor[:, shown] for factor in outcome.factors) if settings.bias else None,
        objective=outcome.objective,
        rmse=rmse_of(outcome.measures, outcome.totals, [axis.size for axis in axes]),
        history=outcome.history,
        converged=outcome.converged,
        stopped_because=outcome.stopped_because,
        costs=costs_of(exchange, outcome.server_seconds),
        patients=int(outcome.totals.patients),
        nonzeros=int(outcome.totals.nonzeros),
        squared_norm=outcome.totals.squared_norm,
        carriers=None if carriers is None else tuple(int(count) for count in carriers),
        notes=notes,
        guided=outcome.guided,
        patient_factors=patient_factors,
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
