"""What a good fit is: a loss says what a hospital contributes and what all make of the total.

Every field of a contribution is a sum over patients, so the federated step is the pooled one by
construction. A further loss is a file with these answers and a line in `losses`;
`testing.loss_contract` proves them. Models stand side by side in one message (`stacked`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

from tripheno.exchange.messages import Contribution
from tripheno.solver.penalties import FactorPenalty
from tripheno.solver.stacked import unit_of, widths_of
from tripheno.solver.starts import Factors
from tripheno.tensor.count_tensor import CountTensor

Sums = dict[str, np.ndarray]
"""One model's part of a total for one feature mode."""


class Loss(ABC):
    """Squared, Poisson, or one of your own."""

    smallest = 0.0  # an entry of a unit column up to this stands at zero
    nonnegative = True

    # ── at home ───────────────────────────────────────────────────────────────────────────────

    @abstractmethod
    def null(self, tensor: CountTensor) -> float:
        """What a model that knows nothing leaves unexplained, under the tensor's weights."""

    @abstractmethod
    def fit_patients(
        self,
        tensor: CountTensor,
        models: Sequence[Factors],
        before: Sequence[np.ndarray] | None = None,
    ) -> list[np.ndarray]:
        """The best rows of every model; no weight enters. ``before`` only saves time."""

    @abstractmethod
    def contribution(
        self,
        tensor: CountTensor,
        models: Sequence[Factors],
        patients: Sequence[np.ndarray],
        n: int,
        *,
        resampling: np.ndarray | None = None,
        unit: float = 1.0,
    ) -> Contribution:
        """One hospital's sums for feature mode n of every model, as shares of ``unit``.

        The tensor's weights act on all models; ``resampling``, patients × models, on each its own.
        """

    @abstractmethod
    def held_out(
        self, tensor: CountTensor, factors: Factors, seen: np.ndarray
    ) -> tuple[float, float]:
        """Loss over the codes of the last mode not ``seen``, rows from the others; and its null."""

    # ── from a total ──────────────────────────────────────────────────────────────────────────

    @abstractmethod
    def sums(self, total: Any, widths: Sequence[int], null: float) -> list[Sums]:
        """Each model's part of a total; ``null`` is that of all patients."""

    @abstractmethod
    def step(
        self, model: Factors, n: int, sums: Sums, penalty: FactorPenalty | None = None
    ) -> np.ndarray:
        """The new factor of feature mode n, not yet of unit length; the loss does not rise."""

    @abstractmethod
    def value(self, model: Factors, n: int, sums: Sums) -> float:
        """The loss at these factors, and at the patients the sums were made with."""

    @abstractmethod
    def gradient(self, model: Factors, n: int, sums: Sums) -> np.ndarray:
        """Its derivative by the factor of feature mode n."""

    @abstractmethod
    def pull(self, model: Factors, n: int, sums: Sums) -> np.ndarray:
        """The part of the gradient that the data make: what a gradient is small against."""

    @abstractmethod
    def curvature(self, model: Factors, n: int, sums: Sums, move: np.ndarray) -> float:
        """Its second derivative along a move of that factor."""

    @abstractmethod
    def removal_costs(self, model: Factors, n: int, sums: Sums, factor: np.ndarray) -> np.ndarray:
        """By how much the loss grows when a column is left out, at the factor that was found."""

    def inside(self, point: Factors, found: Factors) -> Factors:
        """A point beyond what was found, brought to where the loss can be asked."""
        del found
        return point

    def reached(self, model: Factors, n: int, sums: Sums, factor: np.ndarray) -> float:
        """The loss after the step, or a bound above it where the sums do not tell."""
        del factor
        return self.value(model, n, sums)

    def of_patients(self, tensor: CountTensor, factors: Factors, patients: np.ndarray) -> float:
        """The loss of one hospital's patients."""
        null = self.null(tensor)
        mine = self.contribution(tensor, [factors], [patients], 0, unit=unit_of(null))
        (sums,) = self.sums(mine, widths_of([factors]), null)
        return self.value(factors, 0, sums)
