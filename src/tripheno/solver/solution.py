"""What a solver gives back: labelled factors, how it went, why it stopped."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from tripheno.exchange.communicator import Communicator
from tripheno.solver.messages import Measures, Totals
from tripheno.solver.settings import SolverSettings
from tripheno.vocabulary.axis import Axis


class Iteration(NamedTuple):
    """One line of the history."""

    iteration: int
    objective: float  # Ψ
    rmse: float | None  # over nonzero cells
    primal: float | None
    dual: float | None
    bytes: int  # sent so far, up and down, all hospitals
    seconds: float  # since the start


class Rmse(NamedTuple):
    """The three root mean square errors. The seed paper's is the one over nonzeros."""

    nonzeros: float
    frobenius_per_nonzero: float
    all_cells: float


class Costs(NamedTuple):
    """Bytes and seconds of a federated run, counted, not estimated."""

    bytes_up_per_hospital: int
    bytes_down_per_hospital: int
    bytes_total: int
    seconds_slowest_hospital: float
    seconds_all_hospitals: float
    seconds_shared: float  # the steps that every hospital takes on the totals
    rounds: int = 0


@dataclass(frozen=True)
class Solution:
    """Shared phenotypes and the account of how they were found.

    ``patient_factors`` stay where they were made: in a federation this mapping is empty at the
    server. ``own`` are the models of the hospitals here from their own patients alone.
    """

    settings: SolverSettings
    axes: tuple[Axis, ...]
    factors: tuple[np.ndarray, ...]
    weights: np.ndarray
    bias: tuple[np.ndarray, ...] | None
    objective: float
    rmse: Rmse
    history: tuple[Iteration, ...]
    converged: bool
    stopped_because: str
    costs: Costs
    patients: int
    nonzeros: int
    null_loss: float = 0.0  # of no model at all, all hospitals: ‖O‖² where squares are fitted
    guided: tuple[int, ...] = ()  # the component of each guide
    notes: tuple[str, ...] = ()
    bound: float | None = None  # of a patient's length, where influence is bounded
    finalists: tuple[tuple[np.ndarray, ...], ...] = field(default=(), repr=False)  # or their starts
    start: tuple[np.ndarray, ...] = field(default=(), repr=False)  # that won the tournament
    restart_match: tuple[float, ...] = ()  # of every finalist with the result
    component_match: tuple[float, ...] = ()  # per component, the least among the finalists
    patient_factors: dict[str, np.ndarray] = field(default_factory=dict, repr=False)
    own: dict[str, Solution] = field(default_factory=dict, repr=False)  # of `local`, likewise

    @property
    def by_mode(self) -> dict[str, np.ndarray]:
        """Mode name → factor, one column per component."""
        return {axis.mode: factor for axis, factor in zip(self.axes, self.factors, strict=True)}

    @property
    def iterations(self) -> int:
        """How many iterations were run."""
        return len(self.history)

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the whole federation's tensor, patients first."""
        return (self.patients, *(axis.size for axis in self.axes))


def rmse_of(measures: Measures, totals: Totals, sizes: Sequence[int]) -> Rmse:
    """The three errors of a whole federation from its sums."""
    every = totals.patients * math.prod(sizes)
    return Rmse(
        math.sqrt(measures.raw_error_nonzeros / totals.nonzeros),
        math.sqrt(measures.raw_error / totals.nonzeros),
        math.sqrt(measures.raw_error / every),
    )


def costs_of(federation: Communicator, seconds_shared: float) -> Costs:
    """Bytes, rounds and seconds as they were counted; per hospital means the busiest one here."""
    traffic = list(federation.traffic.values())
    sent = sum(t.bytes_up + t.bytes_down for t in traffic)
    return Costs(
        max(t.bytes_up for t in traffic),
        max(t.bytes_down for t in traffic),
        sent * federation.size // len(traffic),
        max(t.seconds for t in traffic),
        sum(t.seconds for t in traffic),
        seconds_shared,
        max(t.rounds for t in traffic),
    )
