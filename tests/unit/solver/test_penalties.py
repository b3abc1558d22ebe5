from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from tripheno.solver.penalties import FactorPenalty, solve_sylvester


def small_problem(seed):
    rng = np.random.default_rng(seed)
    root = rng.standard_normal((6, 3))
    quadratic = root.T @ root + 0.5 * np.eye(3)
    return quadratic, rng.standard_normal((5, 3)) * 3, rng.random((5, 3))


def objective(flat, quadratic, linear, sparsity, other, weight):
    a = flat.reshape(linear.shape)
    value = 0.5 * np.trace(a @ quadratic @ a.T) - (linear * a).sum() + sparsity * np.abs(a).sum()
    return value + 0.5 * weight * ((np.eye(3) - other.T @ a) ** 2).sum()


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("weight", [0.0, 0.7])
def test_the_unconstrained_problem_is_solved_exactly(seed, weight):
    quadratic, linear, other = small_problem(seed)
    found = FactorPenalty("none").minimise(quadratic, linear, other, weight)
    gradient = found @ quadratic - linear + weight * other @ (other.T @ found - np.eye(3))
    assert np.abs(gradient).max() < 1e-10


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("constraint", ["nonnegative", "sparse"])
def test_the_constrained_problem_is_as_good_as_a_general_optimiser_finds(seed, constraint):
    quadratic, linear, other = small_problem(seed)
    sparsity = 0.4 if constraint == "sparse" else 0.0
    found = FactorPenalty(constraint, sparsity).minimise(quadratic, linear)
    assert (found >= 0).all()
    arguments = (quadratic, linear, sparsity, other, 0.0)
    general = minimize(
        objective, np.ones(15), arguments, method="L-BFGS-B", bounds=[(0, None)] * 15,
        options={"ftol": 1e-15, "gtol": 1e-12, "maxiter": 5000},
    )  # fmt: skip
    assert objective(found.ravel(), *arguments) <= general.fun + 1e-8


def test_distinct_columns_under_non_negativity_come_near_the_general_optimum():
    quadratic, linear, other = small_problem(1)
    found = FactorPenalty("nonnegative").minimise(quadratic, linear, other, 0.7)
    arguments = (quadratic, linear, 0.0, other, 0.7)
    general = minimize(
        objective, np.ones(15), arguments, method="L-BFGS-B", bounds=[(0, None)] * 15
    )
    start = objective(other.ravel(), *arguments)
    assert objective(found.ravel(), *arguments) - general.fun < 0.02 * (start - general.fun)


def test_sylvester_with_a_multiple_of_the_identity_is_the_woodbury_solve_of_the_paper():
    _, linear, other = small_problem(2)
    found = solve_sylvester(3.0 * np.eye(3), linear, other, 0.5)
    whole = np.linalg.solve(3.0 * np.eye(5) + 0.5 * other @ other.T, linear)
    assert np.abs(found - whole).max() < 1e-12


def test_the_value_does_not_depend_on_the_length_of_columns():
    _, _, factor = small_problem(3)
    penalty = FactorPenalty("sparse", 0.3, 2.0)
    assert penalty.value(factor) == pytest.approx(penalty.value(factor * [1.0, 5.0, 0.2]))


def test_what_is_given_back_cancels_the_pull_on_the_length():
    """At unit columns the value's slope along each column is zero."""
    _, _, factor = small_problem(3)
    unit = factor / np.linalg.norm(factor, axis=0)
    penalty = FactorPenalty("nonnegative", 0.3, 2.0)
    overlap = unit.T @ unit - np.eye(3)
    slope = 0.3 * np.sign(unit) + 2 * 2.0 * unit @ overlap
    along = ((slope - penalty.given_back(unit)) * unit).sum(axis=0)
    pull = (slope * unit).sum(axis=0)
    assert np.abs(along).max() < 1e-12
    assert np.abs(pull).min() > 0.1


def test_a_bias_column_is_not_kept_apart_from_anything():
    _, _, factor = small_problem(3)
    assert FactorPenalty("none", 0.0, 1.0, bias=True).value(factor) < FactorPenalty(
        "none", 0.0, 1.0
    ).value(factor)


@pytest.mark.filterwarnings("ignore::tripheno.errors.NotConverged")
def test_a_distinct_phenotype_overlaps_less():
    from tripheno.solver.fit import fit
    from tripheno.solver.settings import SolverSettings
    from tripheno.testing.planted import planted

    def overlap(weight):
        settings = SolverSettings(
            8, "exact", relative_distinctness=weight, max_iter=40, starts=1, tol=1e-4
        )
        found = fit(planted(0).hospitals, settings)
        return max(np.abs(f.T @ f - np.eye(8)).max() for f in found.factors)

    assert overlap(1.0) < overlap(0.0)


def test_sparse_phenotypes_have_more_zeros():
    from tripheno.solver.fit import fit
    from tripheno.solver.settings import SolverSettings
    from tripheno.testing.planted import planted

    def zeros(constraint, method):
        settings = SolverSettings(6, method, constraint=constraint, max_iter=60, tol=1e-5)
        return np.mean([(f == 0).mean() for f in fit(planted(0).hospitals, settings).factors])

    for method in ("exact", "trip"):
        assert zeros("sparse", method) > zeros("nonnegative", method)


@pytest.mark.parametrize("constraint", ["nonnegative", "none", "sparse"])
def test_a_diagonal_problem_is_solved_entry_by_entry_as_the_rows_would_be(constraint):
    _, linear, _ = small_problem(2)
    diagonal = np.diag([1.0, 4.0, 0.5])
    nearly = diagonal + 1e-14 * (1 - np.eye(3))
    penalty = FactorPenalty(constraint, 0.3 if constraint == "sparse" else 0.0)
    found, by_rows = penalty.minimise(diagonal, linear), penalty.minimise(nearly, linear)
    assert np.abs(found - by_rows).max() < 1e-12
