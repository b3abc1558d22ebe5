"""A run's state as named arrays and back, so that it can be kept on disk and gone on with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from tripheno.errors import BadMessage
from tripheno.solver.hospital import HospitalState
from tripheno.solver.loop import Moment
from tripheno.solver.messages import Totals
from tripheno.solver.server import ServerMethod
from tripheno.solver.settings import SolverSettings
from tripheno.solver.solution import Iteration
from tripheno.tensor.count_tensor import CountTensor

Arrays = dict[str, np.ndarray]
ABSENT = -1.0  # stands for None in a history: errors and residuals are not negative
_SERVER = ("shared_factors", "split_factors", "split_dual", "last_factors")
_HOSPITAL = ("shared_factors", "local_factors", "consensus_dual", "penalties")
_MAYBE = ("patient_factor", "mttkrp", "gram")


def moment_arrays(moment: Moment) -> Arrays:
    """The server's moment: feature factors and sums, nothing of one hospital."""
    state = moment.state
    found = _tuples(state, _SERVER)
    if state.scale is not None:
        found["scale"] = state.scale
    totals = state.totals
    found["totals"] = np.array([totals.squared_norm, totals.nonzeros, totals.patients])
    found["whole"] = np.array([state.changed, state.iteration, state.singular, moment.quiet])
    found["judged_singular"] = np.array(int(moment.singular))
    found["numbers"] = np.array([state.penalty, *moment.relative_residuals])
    found["dual_residual"] = np.array(state.dual_residual, dtype=np.float64)
    rows = [[ABSENT if value is None else value for value in line] for line in moment.history]
    found["history"] = np.array(rows, dtype=np.float64).reshape(len(rows), len(Iteration._fields))
    return found


def moment_of(arrays: Mapping[str, np.ndarray], method: ServerMethod) -> Moment:
    """The moment that was kept."""
    try:
        totals = Totals(*(float(value) for value in arrays["totals"]))
        changed, iteration, singular, quiet = (int(value) for value in arrays["whole"])
        penalty, primal, dual = (float(value) for value in arrays["numbers"])
        parts: dict[str, Any] = {name: _tuple(arrays, name) for name in _SERVER}
        state = replace(
            method.start(parts["shared_factors"], totals),
            changed=changed,
            scale=arrays.get("scale"),
            penalty=penalty,
            iteration=iteration,
            dual_residual=tuple(float(value) for value in arrays["dual_residual"]),
            singular=bool(singular),
            **parts,
        )
        history = tuple(_line(row) for row in arrays["history"])
        judged = bool(arrays["judged_singular"])
    except (KeyError, ValueError, TypeError):
        raise BadMessage("a checkpoint that cannot be read", where="the server's") from None
    return Moment(state, history, (primal, dual), quiet, judged)


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
            found[name] = value
    found["singular"] = np.array(int(state.singular))
    return found


def hospital_state(
    arrays: Mapping[str, np.ndarray], tensor: CountTensor, settings: SolverSettings
) -> HospitalState:
    """The state that was kept, for the same tensor."""
    parts: dict[str, Any] = {name: _tuple(arrays, name) for name in _HOSPITAL}
    parts.update({name: arrays.get(name) for name in _MAYBE})
    state = HospitalState(tensor, settings, singular=bool(arrays.get("singular", 0)), **parts)
    sizes = tuple(len(factor) for factor in state.shared_factors)
    patients = tensor.patients if state.patient_factor is None else len(state.patient_factor)
    if (patients, *sizes) != tensor.shape:
        raise BadMessage("a checkpoint of other data", fix="start the study again")
    return state


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
