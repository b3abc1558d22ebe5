"""What every loss must keep. Inherit, and give ``loss``."""

from __future__ import annotations

import numpy as np

from tripheno.solver.losses import Loss, Sums
from tripheno.solver.starts import Factors
from tripheno.tensor.count_tensor import CountTensor
from tripheno.tensor.factors import unit_columns


def small_counts(seed: int = 0) -> CountTensor:
    """Twenty patients, a few phenotypes, some cells without a count."""
    rng = np.random.default_rng(seed)
    parts = [rng.gamma(0.6, 1.0, (size, 3)) for size in (20, 7, 6)]
    counts = rng.poisson(np.einsum("ar,br,cr->abc", *parts))
    cells = np.argwhere(counts)
    return CountTensor.from_cells(cells, counts[tuple(cells.T)], shape=counts.shape)


def added(parts: list[Sums]) -> Sums:
    """The only exchange."""
    return {name: np.sum([part[name] for part in parts], axis=0) for name in parts[0]}


class LossContract:
    """Value, derivative, descent, and the sum over hospitals."""

    loss: Loss

    def begun(self) -> tuple[CountTensor, Factors, np.ndarray]:
        tensor = small_counts()
        rng = np.random.default_rng(1)
        factors = tuple(unit_columns(rng.random((axis.size, 3)))[0] for axis in tensor.axes)
        return tensor, factors, self.loss.fit_patients(tensor, factors, None)

    def test_the_gradient_is_the_numerical_one(self) -> None:
        tensor, factors, patients = self.begun()
        rng = np.random.default_rng(2)
        tensor = tensor.with_weights(rng.random(tensor.patients) + 0.5)
        for n, factor in enumerate(factors):
            total = self.loss.contribution(tensor, factors, patients, n)
            move = 1e-6 * rng.standard_normal(factor.shape)
            values = []
            for sign in (1.0, -1.0):
                moved = (*factors[:n], factor + sign * move, *factors[n + 1 :])
                again = self.loss.contribution(tensor, moved, patients, n)
                values.append(self.loss.value(moved, n, again))
            slope = float((self.loss.gradient(factors, n, total) * move).sum())
            assert abs((values[0] - values[1]) / 2.0 - slope) <= 1e-4 * abs(slope) + 1e-9

    def test_steps_never_raise_the_loss(self) -> None:
        tensor, factors, patients = self.begun()
        last = np.inf
        for _ in range(8):
            for n in range(len(factors)):
                total = self.loss.contribution(tensor, factors, patients, n)
                value = self.loss.value(factors, n, total)
                assert value <= last + 1e-9 * abs(value)
                last = value
                factor = self.loss.step(factors, n, total)
                factors = (*factors[:n], factor, *factors[n + 1 :])
            patients = self.loss.fit_patients(tensor, factors, patients)

    def test_hospitals_together_step_as_the_pooled_patients_do(self) -> None:
        tensor, factors, patients = self.begun()
        rows = np.array_split(np.arange(tensor.patients), 3)
        for n in range(len(factors)):
            whole = self.loss.contribution(tensor, factors, patients, n)
            parts = [
                self.loss.contribution(tensor.select_patients(own), factors, patients[own], n)
                for own in rows
            ]
            one, other = (self.loss.step(factors, n, t) for t in (whole, added(parts)))
            assert np.abs(one - other).max() <= 1e-9 * np.abs(one).max()
