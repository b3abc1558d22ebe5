from __future__ import annotations

import numpy as np

from tripheno.solver.losses import SquaredLoss
from tripheno.solver.poisson import PoissonLoss
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
            total = self.loss.contribution(tensor, factors, patients, n)
            slopes, curves, logs = reference.poisson_sums(dense, [patients, *factors], n + 1)
            assert np.allclose(total["slopes"], slopes, rtol=1e-9)
            assert np.allclose(total["curves"], curves[:, lower[0], lower[1]], rtol=1e-9)
            assert np.isclose(total["logs"][0], logs)

    def test_a_fit_comes_as_low_as_the_multiplicative_rule_goes(self):
        tensor, factors, patients = self.begun()
        plain = [patients.copy(), *(factor.copy() for factor in factors)]
        for _ in range(60):
            for n in range(2):
                total = self.loss.contribution(tensor, factors, patients, n)
                factor = self.loss.step(factors, n, total)
                factors = (*factors[:n], factor, *factors[n + 1 :])
            patients = self.loss.fit_patients(tensor, factors, patients)
        dense = tensor.to_tensorly()
        for _ in range(600):
            for mode in range(3):
                slopes, _, _ = reference.poisson_sums(dense, plain, mode)
                others = np.prod([f.sum(axis=0) for m, f in enumerate(plain) if m != mode], axis=0)
                plain[mode] = plain[mode] * slopes / others
        final = self.loss.contribution(tensor, factors, patients, 0)
        ours = self.loss.value(factors, 0, final)
        _, _, logs = reference.poisson_sums(dense, plain, 0)
        theirs = reference.model(plain).sum() - logs
        assert ours <= theirs + 1e-3 * abs(theirs)


def test_the_kit_has_empty_cells_and_counts():
    dense = small_counts().to_tensorly()
    assert (dense == 0).any()
    assert dense.max() > 3
