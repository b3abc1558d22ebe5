from __future__ import annotations

import numpy as np
import pytest

from tripheno.solver.poisson import PoissonLoss
from tripheno.solver.squared import SquaredLoss
from tripheno.tensor import reference
from tripheno.testing.loss_contract import LossContract, small_counts


class TestSquared(LossContract):
    loss = SquaredLoss()


class TestPoisson(LossContract):
    loss = PoissonLoss()

    def test_its_sums_equal_those_of_the_plain_twin(self):
        tensor, factors, patients = self.begun()
        dense = tensor.to_tensorly()
        lower = np.tril_indices(3)
        for n in range(2):
            total = self.loss.contribution(tensor, [factors], [patients], n)
            slopes, curves, logs = reference.poisson_sums(dense, [patients, *factors], n + 1)
            pairs = factors[n][:, lower[0]] * factors[n][:, lower[1]]
            assert np.allclose(total.slopes, slopes * factors[n], rtol=1e-9)
            assert np.allclose(total.curves, curves[:, lower[0], lower[1]] * pairs, rtol=1e-9)
            counts = dense[dense > 0]
            assert total.logs[0] == pytest.approx((counts * np.log(counts) - counts).sum() - logs)

    def test_a_patients_row_is_where_the_multiplicative_rule_ends(self):
        tensor, factors, patients = self.begun()
        dense = tensor.to_tensorly()
        rows = np.ones_like(patients)
        others = np.prod([factor.sum(axis=0) for factor in factors], axis=0)
        for _ in range(20_000):
            slopes, _, _ = reference.poisson_sums(dense, [rows, *factors], 0)
            rows = rows * slopes / others
        assert np.abs(rows - patients).max() <= 1e-4 * patients.max()


def test_the_kit_has_empty_cells_and_counts():
    dense = small_counts().to_tensorly()
    assert (dense == 0).any()
    assert dense.max() > 3
