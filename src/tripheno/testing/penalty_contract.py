"""What every penalty on a feature factor must keep. Inherit, and give ``penalty``."""

from __future__ import annotations

import numpy as np

from tripheno.solver.penalties import FactorPenalty
from tripheno.tensor.factors import unit_columns

CODES, RANK = 9, 3


class PenaltyContract:
    """Value, gradient, how fast it turns, and the proximal step."""

    penalty: FactorPenalty

    def factor(self) -> np.ndarray:
        return unit_columns(np.random.default_rng(0).random((CODES, RANK)) + 0.1)[0]

    def test_the_value_does_not_depend_on_lengths_and_is_not_negative(self) -> None:
        factor = self.factor()
        longer = factor * np.array([0.1, 3.0, 20.0])
        assert np.isclose(self.penalty.value(factor), self.penalty.value(longer), rtol=1e-12)
        assert self.penalty.value(factor) >= 0.0

    def test_the_gradient_is_the_numerical_one(self) -> None:
        factor = self.factor()
        move = 1e-6 * np.random.default_rng(1).standard_normal(factor.shape)
        ahead, behind = (self.penalty.value(factor + sign * move) for sign in (1.0, -1.0))
        slope = float((self.penalty.gradient(factor) * move).sum())
        assert abs((ahead - behind) / 2.0 - slope) <= 1e-5 * abs(slope) + 1e-14

    def test_a_step_as_short_as_its_stiffness_asks_does_not_raise_the_value(self) -> None:
        factor, gradient = self.factor(), self.penalty.gradient(self.factor())
        stiff = self.penalty.stiffness(factor)
        step = np.divide(gradient, stiff, out=np.zeros_like(gradient), where=stiff > 0.0)
        assert self.penalty.value(factor - step) <= self.penalty.value(factor) + 1e-12

    def test_the_proximal_step_ends_where_no_neighbour_is_lower(self) -> None:
        rng = np.random.default_rng(2)
        quadratic, linear = np.diag([1.0, 2.0, 5.0]), rng.standard_normal((CODES, RANK))

        def problem(factor: np.ndarray) -> float:
            fit = 0.5 * float(((factor.T @ factor) * quadratic).sum())
            return (
                fit
                - float((linear * factor).sum())
                + sum(t.shrinkage for t in self.penalty.terms) * float(np.abs(factor).sum())
            )

        found = self.penalty.minimise(quadratic, linear)
        assert not self.penalty.nonnegative or (found >= 0.0).all()
        for _ in range(50):
            other = found + 1e-3 * rng.standard_normal(found.shape)
            if self.penalty.nonnegative:
                other = np.maximum(other, 0.0)
            assert problem(other) >= problem(found) - 1e-12
