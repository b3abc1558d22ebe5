"""Everything the coordinator of a run saw, and how it reads a hospital's message as numbers.

A message in clear is what it says. A masked one is read as if it were not masked. The coordinator
is given what only hospitals know: the factors and the scales of every step. So nothing but the
masks stands between it and the numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np

from tripheno.exchange.communicator import (
    STATE,
    VOTES,
    Communicator,
    Listener,
    least_exponents,
)
from tripheno.exchange.field import out_of_field
from tripheno.exchange.fixed_point import Layout
from tripheno.exchange.registry import Declaration
from tripheno.exchange.session import HEAD
from tripheno.exchange.words import room_for
from tripheno.lab.attacks.first_version import Arrays, FirstVersion
from tripheno.solver.federated import method_of
from tripheno.solver.fit import fit
from tripheno.solver.messages import FactorNews, NormalEquations, Proposal, Totals
from tripheno.solver.settings import SolverSettings
from tripheno.solver.starts import first_factors
from tripheno.study.makers import Maker, SumsKind
from tripheno.tensor.count_tensor import CountTensor
from tripheno.vocabulary.axis import Axis

Sums = SumsKind | Literal["masked"]
"""How contributions are added; `masked` is the first version, which nobody can choose."""


class Wiretap(Communicator):
    """A federation that remembers what was contributed, beside what could be heard of it."""

    def __init__(self, base: Communicator) -> None:
        super().__init__(base.hospitals, base.local_hospitals, base.carrier)
        self.contributed: dict[str, dict[str, Arrays]] = {}
        self.totals: dict[str, Arrays] = {}
        self.scaled: dict[str, tuple[Layout, np.ndarray]] = {}

    def _total(self, step: str, declaration: Declaration, parts: Mapping[str, Arrays]) -> Arrays:
        self.contributed[step] = {name: _own(arrays) for name, arrays in parts.items()}
        found = super()._total(step, declaration, parts)
        self.totals[step] = _own(found)
        return found

    def _blind_total(
        self,
        step: str,
        declaration: Declaration,
        parts: Mapping[str, Arrays],
        layout: Layout,
        shapes: Mapping[str, Any],
    ) -> Arrays:
        least = least_exponents(layout, declaration.fields)
        self.scaled[step] = (layout, self.scales.exponents(step, layout, least))
        return super()._blind_total(step, declaration, parts, layout, shapes)


def _own(arrays: Arrays) -> Arrays:
    return {key: array for key, array in arrays.items() if key not in (STATE, VOTES)}


@dataclass(frozen=True)
class Snapshot:
    """Where the shared program stood when a step of the fit was summed."""

    step: str
    iteration: int
    mode: int
    news: FactorNews
    factors: tuple[np.ndarray, ...]


@dataclass
class View:
    """One run as the coordinator saw it, and the truth to compare with."""

    hospitals: tuple[str, ...]
    sums: Sums
    seed: int = 0
    settings: SolverSettings = field(default_factory=SolverSettings)
    axes: tuple[Axis, ...] = ()
    messages: list[tuple[str, str, bytes, bytes]] = field(default_factory=list)

    def __post_init__(self) -> None:
        kind: SumsKind = "blind" if self.sums == "blind" else "plain"
        listen: Listener = lambda *heard: self.messages.append(heard)  # noqa: E731
        self.tap = Wiretap(Maker(kind, self.seed)(self.hospitals, listen=listen))
        self.before = FirstVersion(self.hospitals, self.seed)

    @cached_property
    def _heard(self) -> dict[tuple[str, str], tuple[bytes, bytes]]:
        return {(step, name): (answer, part) for step, name, answer, part in self.messages}

    def reading(self, step: str, hospital: str) -> Arrays:
        """A hospital's numbers, as far as the coordinator can read them."""
        parts = self.tap.contributed[step]
        if self.sums == "plain":
            return parts[hospital]
        if self.sums == "masked":
            scales, layout = self.before.scales(parts), Layout.of(parts[hospital])
            words = self.before.sealed(hospital, step, parts[hospital], scales)
            return self.before.read(layout, words, scales)
        return self._unblinded(step, self._heard[step, hospital][1])

    def total(self, step: str) -> Arrays:
        """What the coordinator can read of the sum that it made itself."""
        if self.sums != "blind":
            return self.tap.totals[step]  # reading it was the server's part
        return self._unblinded(step, self._heard[step, self.hospitals[0]][0])

    def _unblinded(self, step: str, data: bytes) -> Arrays:
        layout, exponents = self.tap.scaled[step]
        count = HEAD.unpack_from(data)[-1]
        words = np.frombuffer(data[-8 * count :], "<u8")[: layout.size]
        powers = exponents.astype(np.int64) - room_for(len(self.hospitals))
        return _own(layout.split(out_of_field(words) * np.ldexp(1.0, powers)[layout.lane_of]))

    @cached_property
    def snapshots(self) -> tuple[Snapshot, ...]:
        """The shared program run again on the totals: whoever reads them all knows this much."""
        settings, totals = self.settings, self.tap.totals
        method = method_of(settings, self.axes)
        kind = Proposal if settings.method == "trip" else NormalEquations
        state = method.start(
            first_factors(self.axes, settings), Totals.from_arrays(totals["totals"])
        )
        found = []
        for step in (step for step in totals if step.startswith("fit/")):
            iteration, mode, inner = map(int, step.split("/")[1:])
            if iteration > state.iteration:
                state = method.end_iteration(state)
            news = state.news(mode, first=inner == 0)
            found.append(Snapshot(step, iteration, mode, news, state.shared_factors))
            total = kind.from_arrays(dict(totals[step]))
            state = method.absorb(state, mode, inner, total, lambda own: own)
        return tuple(found)


def watched_run(tensors: Mapping[str, CountTensor], settings: SolverSettings, sums: Sums) -> View:
    """A run, with everything the coordinator saw."""
    axes = next(iter(tensors.values())).axes
    view = View(tuple(sorted(tensors)), sums, settings.seed, settings.with_variant_rules(), axes)
    fit(tensors, settings, view.tap)
    return view
