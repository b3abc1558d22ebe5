"""Everything the server of a run saw, and how it reads a hospital's message as numbers.

A message in clear is what it says. A masked one is read as if it were not masked: the server knows
names, shapes and scales, so nothing but the masks stands between it and the numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from tripheno.exchange import MakeSums
from tripheno.exchange.fixed_point import Layout, decode, read_plan
from tripheno.exchange.messages import unpack
from tripheno.exchange.secure import masked_words, unwrapped
from tripheno.privacy.outgoing import Outgoing, Traffic, phase_of
from tripheno.solver.fit import fit
from tripheno.solver.messages import Begin, FactorNews
from tripheno.solver.settings import SolverSettings
from tripheno.solver.solution import Solution
from tripheno.tensor.count_tensor import CountTensor

Readings = dict[str, np.ndarray]


@dataclass
class ServerView:
    """The transcript of one run at the server: every broadcast, every answer, and the result."""

    settings: SolverSettings
    hospitals: tuple[str, ...]
    sizes: Mapping[str, int]
    masked: bool
    messages: list[tuple[str, str, bytes, bytes]] = field(default_factory=list)
    solution: Solution | None = None

    def listen(self, step: str, hospital: str, broadcast: bytes, answer: bytes) -> None:
        """One message down and one up."""
        self.messages.append((step, hospital, broadcast, answer))

    @cached_property
    def answers(self) -> dict[str, dict[str, tuple[bytes, bytes]]]:
        """Step → hospital → what was sent down and what came up."""
        found: dict[str, dict[str, tuple[bytes, bytes]]] = {}
        for step, hospital, broadcast, answer in self.messages:
            found.setdefault(step, {})[hospital] = (broadcast, answer)
        return found

    @cached_property
    def broadcasts(self) -> dict[str, bytes]:
        """Step → what the server sent to all."""
        firsts = {step: next(iter(one.values()))[0] for step, one in self.answers.items()}
        if not self.masked:
            return firsts
        return {
            step: data if step.startswith("keys/") else unwrapped(data, "")[1]
            for step, data in firsts.items()
        }

    @cached_property
    def _listed(self) -> dict[str, Outgoing]:
        traffic = Traffic(
            tuple(self.sizes), self.sizes, self.settings, len(self.hospitals), self.masked,
            count_people=True,
        )  # fmt: skip
        return {one.phase: one for one in traffic.messages()}

    def _layout(self, step: str) -> Layout:
        return self._listed[phase_of(step)].layout(self.sizes)

    def _decoded(self, step: str, words: np.ndarray) -> Readings:
        layout = self._layout(step)
        plan = unwrapped(next(iter(self.answers[step].values()))[0], step)[0]
        exponents = read_plan(plan, layout, len(self.hospitals), step)
        return decode(layout, words[: layout.size], exponents, len(self.hospitals))

    def reading(self, step: str, hospital: str) -> Readings:
        """A hospital's numbers, as far as the server can read them."""
        answer = self.answers[step][hospital][1]
        if not self.masked:
            return unpack(answer, where=step)
        return self._decoded(step, masked_words(answer))

    def total(self, step: str) -> Readings:
        """The sum of a step: what the server is meant to see."""
        if not self.masked:
            parts = [self.reading(step, name) for name in self.hospitals]
            return {key: np.sum([part[key] for part in parts], axis=0) for key in parts[0]}
        words = sum(masked_words(answer) for _, answer in self.answers[step].values())
        return self._decoded(step, np.asarray(words))

    def shared_factors(self) -> dict[str, tuple[np.ndarray, ...]]:
        """Step → every feature factor as it stood when the step was asked."""
        found: dict[str, tuple[np.ndarray, ...]] = {}
        factors: list[np.ndarray] = []
        for step, payload in self.broadcasts.items():
            kind = step.split("/", 1)[0]
            if kind == "begin":
                factors = list(Begin.unpack(payload).factors)
            elif kind in ("iterate", "review") and payload:
                news = FactorNews.unpack(payload)
                if news.changed >= 0:
                    factors[news.changed] = news.factor
            found[step] = tuple(factors)
        return found


def watched_run(
    tensors: Mapping[str, CountTensor], settings: SolverSettings, sums: MakeSums, *, masked: bool
) -> ServerView:
    """A run, with everything the server saw."""
    axes = next(iter(tensors.values())).axes
    sizes = {axis.mode: axis.size for axis in axes}
    view = ServerView(settings.with_variant_rules(), tuple(tensors), sizes, masked)
    view.solution = fit(tensors, settings, sums=sums, listen=view.listen)
    return view
