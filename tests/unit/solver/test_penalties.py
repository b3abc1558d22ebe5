from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from tripheno.solver.distinctness import Distinctness, solve_sylvester
from tripheno.solver.penalties import FactorPenalty
from tripheno.solver.penalty import Penalty
from tripheno.solver.sparsity import Sparsity
from tripheno.tensor.factors import unit_columns


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
    if weight:
        found = Distinctness(weight).apart(quadratic, linear, other, weight, nonnegative=False)
    else:
        found = FactorPenalty(nonnegative=False).minimise(quadratic, linear)
    gradient = found @ quadratic - linear + weight * other @ (other.T @ found - np.eye(3))
    assert np.abs(gradient).max() < 1e-10


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("constraint", ["nonnegative", "sparse"])
def test_the_constrained_problem_is_as_good_as_a_general_optimiser_finds(seed, constraint):
    quadratic, linear, other = small_problem(seed)
    sparsity = 0.4 if constraint == "sparse" else 0.0
    found = FactorPenalty((Sparsity(sparsity),)).minimise(quadratic, linear)
    assert (found >= 0).all()
    arguments = (quadratic, linear, sparsity, other, 0.0)
    general = minimize(
        objective, np.ones(15), arguments, method="L-BFGS-B", bounds=[(0, None)] * 15,
        options={"ftol": 1e-15, "gtol": 1e-12, "maxiter": 5000},
    )  # fmt: skip
    assert objective(found.ravel(), *arguments) <= general.fun + 1e-8


def test_without_a_term_the_objective_is_the_misfit_alone():
    assert FactorPenalty().value(np.ones((4, 2))) == 0.0


def test_distinct_columns_under_non_negativity_come_near_the_general_optimum():
    quadratic, linear, other = small_problem(1)
    found = Distinctness(0.7).apart(quadratic, linear, other, 0.7, nonnegative=True)
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
    penalty = FactorPenalty((Sparsity(0.3), Distinctness(2.0)))
    assert penalty.value(factor) == pytest.approx(penalty.value(factor * [1.0, 5.0, 0.2]))


def test_what_is_given_back_cancels_the_pull_on_the_length():
    """At unit columns the value's slope along each column is zero."""
    _, _, factor = small_problem(3)
    unit = factor / np.linalg.norm(factor, axis=0)
    penalty = FactorPenalty((Sparsity(0.3), Distinctness(2.0)))
    overlap = unit.T @ unit - np.eye(3)
    slope = 0.3 * np.sign(unit) + 2 * 2.0 * unit @ overlap
    along = ((slope - penalty.given_back(unit)) * unit).sum(axis=0)
    pull = (slope * unit).sum(axis=0)
    assert np.abs(along).max() < 1e-12
    assert np.abs(pull).min() > 0.1


def test_a_bias_column_is_not_kept_apart_from_anything():
    _, _, factor = small_problem(3)
    unit = factor / np.linalg.norm(factor, axis=0)
    apart = Distinctness(1.0, bias=True)
    assert apart.value(unit) < Distinctness(1.0).value(unit)
    assert not apart.gradient(unit, nonnegative=True)[:, -1].any()


@pytest.mark.filterwarnings("ignore::tripheno.errors.NotConverged")
def test_a_distinct_phenotype_overlaps_less():
    from kit.planted import planted
    from tripheno.solver.fit import fit
    from tripheno.solver.settings import SolverSettings

    def overlap(weight):
        settings = SolverSettings(
            8, "exact", relative_distinctness=weight, max_iter=40, starts=1, tol=1e-4
        )
        found = fit(planted(0).hospitals, settings)
        return max(np.abs(f.T @ f - np.eye(8)).max() for f in found.factors)

    assert overlap(1.0) < overlap(0.0)


def test_sparse_phenotypes_have_more_zeros():
    from kit.planted import planted
    from tripheno.solver.fit import fit
    from tripheno.solver.settings import SolverSettings

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
    terms = (Sparsity(0.3),) if constraint == "sparse" else ()
    penalty = FactorPenalty(terms, constraint != "none")
    found, by_rows = penalty.minimise(diagonal, linear), penalty.minimise(nearly, linear)
    assert np.abs(found - by_rows).max() < 1e-12


class AwayFrom(Penalty):
    """A term of somebody's own: η Σ_r (s·a_r) for a direction s nobody wants."""

    def __init__(self, weight, direction):
        self.weight, self.direction = weight, direction

    def value(self, unit):
        return self.weight * float((self.direction @ unit).sum())

    def gradient(self, unit, *, nonnegative):
        del nonnegative
        turned = self.direction[:, None] - unit * (self.direction @ unit)
        return self.weight * turned

    def stiffness(self, unit):
        return np.full(unit.shape[1], self.weight)


def test_a_term_of_ones_own_needs_no_more_than_value_gradient_and_stiffness():
    rng = np.random.default_rng(3)
    unit = unit_columns(rng.random((6, 2)) + 0.1)[0]
    own = FactorPenalty((AwayFrom(4.0, unit[:, 0]),))
    step = 1e-6 * rng.standard_normal(unit.shape)
    assert own.value(unit + step) - own.value(unit) == pytest.approx(
        float((own.gradient(unit) * step).sum()), rel=1e-3
    )
    linear = 2.0 * unit + own.given_back(unit)
    after = unit_columns(own.minimise_whole(2.0 * np.eye(2), linear, unit))[0]
    assert own.value(after) < own.value(unit)


@pytest.mark.filterwarnings("ignore::tripheno.errors.NotConverged")
@pytest.mark.parametrize("constraint", ["nonnegative", "sparse"])
@pytest.mark.parametrize("bias", [False, True])
def test_one_phenotype_has_none_to_be_distinct_from(constraint, bias):
    from kit.planted import planted
    from tripheno.solver.fit import fit
    from tripheno.solver.settings import SolverSettings

    def factors(weight):
        settings = SolverSettings(
            1, constraint=constraint, bias=bias, relative_distinctness=weight, max_iter=4, starts=1
        )
        return fit(planted(0).hospitals, settings).factors

    for kept_apart, plain in zip(factors(0.2), factors(0.0), strict=True):
        assert np.allclose(kept_apart, plain, atol=1e-9)
