"""A fit's state as named arrays and back, so that it can be kept on disk and gone on with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from tripheno.errors import BadMessage
from tripheno.solver import tournament
from tripheno.solver.acceleration import Momentum
from tripheno.solver.hospital import HospitalState
from tripheno.solver.loop import Checkpoint, Keep, LoopResult, Members
from tripheno.solver.messages import Measures, Totals
from tripheno.solver.method import Method
from tripheno.solver.settings import SolverSettings
from tripheno.solver.solution import Iteration
from tripheno.solver.stopping import Quiet
from tripheno.solver.tournament import Candidate, Tournament
from tripheno.solver.tournament_run import TournamentState
from tripheno.tensor.count_tensor import CountTensor

Arrays = dict[str, np.ndarray]
FAR = 1e300  # stands for a Ψ that is not known yet
ABSENT = -1.0  # stands for None in a history: errors and residuals are not negative
_SHARED = ("shared_factors", "split_factors", "split_dual", "last_factors", "typical")
_HOSPITAL = ("shared_factors", "local_factors", "consensus_dual", "penalties")
_MAYBE = ("patient_factor", "mttkrp", "gram")


class Store(Protocol):
    """Where a process keeps what it needs to go on after a fault."""

    def outcome(self, members: Members) -> LoopResult | None:
        """The outcome of a fit that was finished before, its members brought there."""

    def finished(self, members: Members, outcome: LoopResult) -> None:
        """Keep the outcome of a fit."""

    def resume(self, members: Members, method: Method) -> Checkpoint | None:
        """Where to go on with this fit, its members brought there; None: from its beginning."""

    def keeper(self, members: Members) -> Keep:
        """What is called between two iterations."""

    def field_state(self, members: Members) -> TournamentState | None:
        """Where to go on with this fit's tournament; None: from its beginning."""

    def tournament_keeper(self, members: Members) -> Callable[[TournamentState], None]:
        """What is called between two iterations of a tournament."""


def checkpoint_arrays(checkpoint: Checkpoint) -> Arrays:
    """What every hospital knows alike: feature factors and sums, nothing of one hospital."""
    state = checkpoint.state
    found = _tuples(state, _SHARED)
    if state.scale is not None:
        found["scale"] = state.scale
    found["totals"] = _totals_array(state.totals)
    found["whole"] = np.array([state.changed, state.iteration, state.singular, checkpoint.quiet])
    found["judged_singular"] = np.array(int(checkpoint.singular))
    numbers = [state.penalty, *checkpoint.relative_residuals, state.slope, min(state.moved, 1.0)]
    found["numbers"] = np.array(numbers)
    found["dual_residual"] = np.array(state.dual_residual, dtype=np.float64)
    found["history"] = _history_array(checkpoint.history)
    return {**found, **_finalists(checkpoint.finalists)}


def checkpoint_of(arrays: Mapping[str, np.ndarray], method: Method) -> Checkpoint:
    """The checkpoint that was kept."""
    try:
        totals = _totals(arrays["totals"])
        changed, iteration, singular, quiet = (int(value) for value in arrays["whole"])
        penalty, primal, dual, slope, moved = (float(value) for value in arrays["numbers"])
        parts: dict[str, Any] = {name: _tuple(arrays, name) for name in _SHARED}
        state = replace(
            method.start(parts["shared_factors"], totals),
            changed=changed,
            scale=arrays.get("scale"),
            penalty=penalty,
            slope=slope,
            moved=moved,
            iteration=iteration,
            dual_residual=tuple(float(value) for value in arrays["dual_residual"]),
            singular=bool(singular),
            **parts,
        )
        history = tuple(_line(row) for row in arrays["history"])
        judged = bool(arrays["judged_singular"])
    except (KeyError, ValueError, TypeError):
        raise BadMessage("a checkpoint that cannot be read") from None
    return Checkpoint(state, history, (primal, dual), quiet, judged, _finalists_of(arrays))


def tournament_arrays(field_state: TournamentState) -> Arrays:
    """Where a tournament stands: feature factors and sums, nothing of one hospital."""
    field = field_state.field
    found: Arrays = {}
    for s, one in enumerate(field.candidates):
        found |= _numbered(f"point-{s}", one.point)
        found |= _numbered(f"best-{s}", one.momentum.factors)
    for s, factors in enumerate(field_state.found):
        found |= _numbered(f"found-{s}", factors)
    found |= _finalists(field_state.finalists)
    kinds = [tournament.KINDS.index(one.kind) for one in field.candidates]
    found["contestants"] = np.array([[one.number for one in field.candidates], kinds])
    found["momenta"] = np.array(
        [[m.objective, m.step, m.ceiling] for m in (one.momentum for one in field.candidates)]
    )
    found["whole"] = np.array([field.rank, field.iteration, field_state.quiet.iterations])
    found["quiet"] = np.array([field_state.quiet.objective])
    found["objectives"] = np.array(field_state.objectives)
    found["history"] = _history_array(field_state.history)
    return {name: np.nan_to_num(array, posinf=FAR) if array.dtype.kind == "f" else array
            for name, array in found.items()}  # fmt: skip


def tournament_of(arrays: Mapping[str, np.ndarray]) -> TournamentState:
    """The tournament that was kept."""
    rank, iteration, quiet = (int(value) for value in arrays["whole"])
    momenta = np.where(arrays["momenta"] >= FAR, np.inf, arrays["momenta"])
    candidates = tuple(
        Candidate(
            int(number), tournament.KINDS[int(kind)],
            Momentum(_tuple(arrays, f"best-{s}"), *(float(value) for value in momenta[s])),
            _tuple(arrays, f"point-{s}"),
        )
        for s, (number, kind) in enumerate(arrays["contestants"].T)
    )  # fmt: skip
    objectives = tuple(float(value) for value in arrays["objectives"])
    last = np.where(arrays["quiet"] >= FAR, np.inf, arrays["quiet"])
    return TournamentState(
        Tournament(rank, candidates, iteration),
        tuple(_tuple(arrays, f"found-{s}") for s in range(len(objectives))),
        objectives,
        _finalists_of(arrays),
        Quiet(quiet, *(float(value) for value in last)),
        tuple(_line(row) for row in arrays["history"]),
    )


def outcome_arrays(outcome: LoopResult) -> Arrays:
    """A finished fit, without any patient."""
    measures = outcome.measures
    return {
        **_tuples(outcome, ("factors",)),
        **_finalists(outcome.finalists),
        "measures": np.array([measures.loss, measures.raw_error, measures.raw_error_nonzeros]),
        "patient_gram": measures.patient_gram,
        "totals": _totals_array(outcome.totals),
        "numbers": np.array([outcome.objective, outcome.seconds_shared]),
        "whole": np.array([outcome.converged, outcome.singular, *outcome.guided], dtype=np.int64),
        "stopped_because": np.frombuffer(outcome.stopped_because.encode(), dtype=np.uint8),
        "history": _history_array(outcome.history),
    }


def outcome_of(arrays: Mapping[str, np.ndarray]) -> LoopResult:
    """The finished fit that was kept."""
    error, raw, at_cells = (float(one) for one in arrays["measures"])
    converged, singular, *guided = (int(value) for value in arrays["whole"])
    return LoopResult(
        factors=_tuple(arrays, "factors"),
        measures=Measures(error, raw, at_cells, arrays["patient_gram"]),
        totals=_totals(arrays["totals"]),
        objective=float(arrays["numbers"][0]),
        history=tuple(_line(row) for row in arrays["history"]),
        converged=bool(converged),
        stopped_because=arrays["stopped_because"].astype(np.uint8).tobytes().decode(),
        singular=bool(singular),
        seconds_shared=float(arrays["numbers"][1]),
        guided=tuple(guided),
        finalists=_finalists_of(arrays),
    )


def _totals_array(totals: Totals) -> np.ndarray:
    return np.array([totals.null_loss, totals.nonzeros, totals.patients])


def _totals(row: np.ndarray) -> Totals:
    return Totals(*(float(value) for value in row))


def _history_array(history: tuple[Iteration, ...]) -> np.ndarray:
    rows = [[ABSENT if value is None else value for value in line] for line in history]
    return np.array(rows, dtype=np.float64).reshape(len(rows), len(Iteration._fields))


def _line(row: np.ndarray) -> Iteration:
    number, objective, *maybe, sent, seconds = (float(value) for value in row)
    rmse, primal, dual = (None if value == ABSENT else value for value in maybe)
    return Iteration(int(number), objective, rmse, primal, dual, int(sent), seconds)


def hospital_arrays(state: HospitalState) -> Arrays:
    """A hospital's private state. Never leaves it."""
    found = _tuples(state, _HOSPITAL)
    for name in _MAYBE:
        value = getattr(state, name)
        if value is not None:
            found[name] = np.asarray(value)
    found["singular"] = np.array(int(state.singular))
    return found


def hospital_state(
    arrays: Mapping[str, np.ndarray],
    tensor: CountTensor,
    settings: SolverSettings,
    hospitals: int,
) -> HospitalState:
    """The state that was kept, for the same tensor."""
    parts: dict[str, Any] = {name: _tuple(arrays, name) for name in _HOSPITAL}
    parts.update({name: arrays.get(name) for name in _MAYBE})
    state = HospitalState(
        tensor, settings, hospitals, singular=bool(arrays.get("singular", 0)), **parts
    )
    sizes = tuple(len(factor) for factor in state.shared_factors)
    patients = tensor.patients if state.patient_factor is None else len(state.patient_factor)
    if (patients, *sizes) != tensor.shape:
        raise BadMessage("a checkpoint of other data", fix="start the study again")
    return state


def _finalists(models: Sequence[tuple[np.ndarray, ...]]) -> Arrays:
    found: Arrays = {"finalists": np.array(len(models))}
    for s, factors in enumerate(models):
        found |= _numbered(f"finalist-{s}", factors)
    return found


def _finalists_of(arrays: Mapping[str, np.ndarray]) -> tuple[tuple[np.ndarray, ...], ...]:
    return tuple(_tuple(arrays, f"finalist-{s}") for s in range(int(arrays["finalists"])))


def _numbered(name: str, parts: Sequence[np.ndarray]) -> Arrays:
    return {f"{name}.{n}": np.asarray(part) for n, part in enumerate(parts)}


def _tuples(state: object, names: tuple[str, ...]) -> Arrays:
    return {
        f"{name}.{n}": np.asarray(part)
        for name in names
        for n, part in enumerate(getattr(state, name))
    }


def _tuple(arrays: Mapping[str, np.ndarray], name: str) -> tuple[np.ndarray, ...]:
    parts: list[np.ndarray] = []
    while f"{name}.{len(parts)}" in arrays:
        parts.append(arrays[f"{name}.{len(parts)}"])
    return tuple(parts)
