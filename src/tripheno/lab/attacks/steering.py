"""A coordinator that does more than add: what it gets out of hospitals, and where it is refused.

On the first version it names scales. On the real thing there is nothing to name: all it can do is
hand on something else than the sum.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from tripheno.errors import TriphenoError
from tripheno.exchange.communicator import Communicator
from tripheno.exchange.registry import How
from tripheno.exchange.session import add
from tripheno.solver.fit import fit
from tripheno.solver.settings import SolverSettings
from tripheno.study.makers import Maker
from tripheno.tensor.count_tensor import CountTensor

Deceit = Callable[["Deceived", str, bytes], bytes]
"""``handed = deceit(federation, hospital, total)``: what a hospital gets in place of the total."""


def _changed(total: bytes) -> bytes:
    return total[:-8] + bytes([total[-8] ^ 1]) + total[-7:]


def _without(federation: Deceived, name: str) -> bytes:
    return add([part for other, part in federation.sent.items() if other != name])


def _swapped(federation: Deceived, first: str) -> bytes:
    """One hospital's contribution twice, another's not at all."""
    last = federation.hospitals[-1]
    return add([federation.sent[first if n == last else n] for n in federation.hospitals])


DECEITS: dict[str, Deceit] = {
    "another total for one hospital": lambda f, name, total: (
        _changed(total) if name == f.hospitals[0] else total
    ),
    "a changed total": lambda _f, _name, total: _changed(total),
    "an earlier total": lambda f, _name, _total: f.earlier,
    "a total cut short": lambda _f, _name, total: total[:-8],
    "a sum without one hospital": lambda f, _name, _total: _without(f, f.hospitals[0]),
    "one hospital's message for the sum": lambda f, _name, _total: f.sent[f.hospitals[0]],
    "one hospital twice, another not": lambda f, _name, _total: _swapped(f, f.hospitals[0]),
}


class Deceived(Communicator):
    """Real hospitals, whose coordinator hands on something else than the total of one step."""

    def __init__(self, base: Communicator, deceit: Deceit, at: str) -> None:
        super().__init__(base.hospitals, base.local_hospitals, base.carrier)
        self.deceit, self.at = deceit, at
        self.sent: dict[str, bytes] = {}
        self.earlier: bytes = b""
        self.step = ""
        self.refused: dict[str, str] = {}

    def _exchange(self, how: How, step: str, sent: Mapping[str, bytes]) -> bytes:
        self.sent, self.step = dict(sent), step
        return super()._exchange(how, step, sent)

    def _opened(self, total: bytes) -> np.ndarray:
        if self.step != self.at:
            self.earlier = total
            return super()._opened(total)
        words, faults = np.zeros(0), []
        for name, local in self.local_hospitals.items():
            assert local.session is not None
            try:
                words = local.session.open(self.deceit(self, name, total))
            except TriphenoError as fault:
                self.refused[name] = fault.code
                faults.append(fault)
        if faults:
            raise faults[0]
        return words


def refusals(tensors: Mapping[str, CountTensor], settings: SolverSettings) -> dict[str, str]:
    """Deceit → the code with which hospitals refused it, empty where they went on."""
    short = replace(settings, max_iter=2, starts=1, influence="none")
    found = {}
    for name, deceit in DECEITS.items():
        federation = Deceived(Maker("blind", settings.seed)(tuple(tensors)), deceit, "fit/1/1/0")
        try:
            fit(tensors, short, federation)
        except TriphenoError as fault:
            found[name] = fault.code if federation.refused else ""
        else:
            found[name] = ""
    return found
