from __future__ import annotations

import numpy as np
import pytest

from kit.planted import RANK, planted
from tripheno.errors import SettingsError
from tripheno.evaluation.rank import RankEvidence, recommend
from tripheno.exchange.communicator import in_clear
from tripheno.solver import diagnostics
from tripheno.solver.settings import SolverSettings
from tripheno.solver.squared import RIDGE, SquaredLoss
from tripheno.study.evidence import choose_rank, halves, seeded_generators
from tripheno.study.makers import Maker
from tripheno.tensor.count_tensor import CountTensor
from tripheno.tensor.factors import gram_of_others

SETTINGS = SolverSettings(method="exact", tol=1e-4, starts=4)


def core_consistency(tensors, rows, features, federation=None):
    federation = federation or in_clear(tensors)
    return diagnostics.core_consistency(federation, "", tensors, rows, features)


def held_out_error(tensors, features, rng, *, nonnegative, federation=None):
    federation = federation or in_clear(tensors)
    loss = SquaredLoss(nonnegative)
    return diagnostics.held_out_error(federation, "", tensors, features, rng, loss=loss)


def dense_tensor(shape=(14, 6, 5), seed=0):
    rng = np.random.default_rng(seed)
    dense = rng.poisson(np.einsum("ir,jr,kr->ijk", *(rng.random((n, 2)) * 2 for n in shape)))
    cells = np.argwhere(dense)
    return dense, CountTensor.from_cells(cells, dense[dense > 0], shape=shape)


def test_core_consistency_equals_the_dense_definition_whatever_the_hospitals():
    dense, tensor = dense_tensor()
    rng = np.random.default_rng(1)
    rows, *features = (rng.random((n, 3)) for n in dense.shape)
    inverse = [np.linalg.pinv(factor) for factor in (rows, *features)]
    core = np.einsum("ijk,ai,bj,ck->abc", dense, *inverse)
    ideal = np.zeros((3, 3, 3))
    ideal[np.arange(3), np.arange(3), np.arange(3)] = 1
    expected = 100 * (1 - ((core - ideal) ** 2).sum() / 3)
    parts = {"a": np.arange(5), "b": np.arange(5, 14)}
    tensors = {name: tensor.select_patients(part) for name, part in parts.items()}
    found = core_consistency(tensors, {n: rows[p] for n, p in parts.items()}, features)
    assert found == pytest.approx(expected, rel=1e-9)


def test_held_out_error_equals_a_dense_computation():
    dense, tensor = dense_tensor()
    rng = np.random.default_rng(2)
    features = [rng.random((n, 2)) for n in dense.shape[1:]]
    part = np.random.default_rng(3).permutation(5) < 2
    error = norm = 0.0
    ridge = RIDGE * np.trace(gram_of_others(features)) / 2
    for seen in (part, ~part):
        product = np.einsum("jr,kr->jkr", features[0], features[1][seen]).reshape(-1, 2)
        normal = product.T @ product + ridge * np.eye(2)
        rows = np.linalg.solve(normal, product.T @ dense[:, :, seen].reshape(14, -1).T).T
        model = np.einsum("ir,jr,kr->ijk", rows, features[0], features[1][~seen])
        error += ((dense[:, :, ~seen] - model) ** 2).sum()
        norm += (dense[:, :, ~seen] ** 2).sum()
    found = held_out_error({"h": tensor}, features, np.random.default_rng(3), nonnegative=False)
    assert found == pytest.approx(error / norm, rel=1e-9)


def test_under_blind_sums_the_evidence_is_the_same():
    dense, tensor = dense_tensor()
    rows, *features = (np.random.default_rng(4).random((n, 2)) for n in dense.shape)
    parts = {"a": np.arange(4), "b": np.arange(4, 9), "c": np.arange(9, 14)}
    tensors = {name: tensor.select_patients(part) for name, part in parts.items()}
    own = {name: rows[part] for name, part in parts.items()}
    rng = np.random.default_rng
    makers = (Maker("plain"), Maker("blind"))
    core = [core_consistency(tensors, own, features, maker(tuple(own))) for maker in makers]
    error = [
        held_out_error(tensors, features, rng(0), nonnegative=True, federation=maker(tuple(own)))
        for maker in makers
    ]
    assert core[0] == pytest.approx(core[1], rel=1e-8)
    assert error[0] == pytest.approx(error[1], rel=1e-8)


def test_halves_are_split_at_home_and_lose_nobody():
    tensors = planted(0).hospitals
    first, second = halves(tensors, seeded_generators(0), "test")
    for name, tensor in tensors.items():
        assert first[name].patients + second[name].patients == tensor.patients
        assert first[name].nonzeros + second[name].nonzeros == tensor.nonzeros


@pytest.mark.parametrize("seed", [0, 2])
def test_the_recommended_rank_is_the_planted_one_within_one(seed):
    choice = choose_rank(planted(seed).hospitals, range(RANK - 2, RANK + 3), SETTINGS)
    assert abs(choice.recommendation.rank - RANK) <= 1


@pytest.mark.verify
def test_the_recommended_rank_is_within_one_of_the_planted_rank_in_8_of_10_networks():
    found = [
        choose_rank(planted(seed).hospitals, range(2, 11), SETTINGS).recommendation.rank
        for seed in range(10)
    ]
    assert sum(abs(rank - RANK) <= 1 for rank in found) >= 8, found


def evidence(rank, error, *, stability=0.95, core=99.0, folds=None):
    return RankEvidence(rank, 0.5, core, stability, error, folds or (error, error), stability)


def test_fewer_phenotypes_are_preferred_where_more_predict_no_better():
    found = [evidence(2, 0.7), evidence(3, 0.5), evidence(4, 0.499), evidence(5, 0.6)]
    advice = recommend(found)
    assert (advice.rank, advice.sure) == (3, "clear")


def test_doubt_is_said_aloud():
    edge = recommend([evidence(2, 0.7), evidence(3, 0.5)])
    assert edge.sure == "fair"
    assert "widen --ranks" in edge.text
    shaky = [evidence(2, 0.7), evidence(3, 0.5, stability=0.4, core=10.0), evidence(4, 0.6)]
    assert recommend(shaky).sure == "weak"
    split = [
        evidence(2, 0.55, folds=(0.4, 0.7)), evidence(3, 0.6), evidence(4, 0.6),
        evidence(5, 0.56, folds=(0.7, 0.42)), evidence(6, 0.9),
    ]  # fmt: skip
    assert "folds disagree" in recommend(split).text


def test_the_evidence_may_speak_for_no_number():
    noise = recommend([evidence(2, 3.3), evidence(4, 56.0)])
    assert (noise.rank, noise.sure) == (None, "none")
    assert "no better than by zero (error 3.30)" in noise.text
    other_each_time = recommend([evidence(2, 0.5, stability=0.4), evidence(4, 1.4, stability=0.9)])
    assert other_each_time.rank is None
    assert "match 0.40" in other_each_time.text
    assert "widen" not in other_each_time.text
    too_few = recommend([evidence(2, 0.9, stability=0.0), evidence(4, 0.8, stability=0.3)])
    assert too_few.rank is None
    assert "widen --ranks" in too_few.text


def test_nothing_to_try_and_too_few_patients_are_refused():
    with pytest.raises(SettingsError):
        choose_rank(planted(0).hospitals, [], SETTINGS)
    tiny = {"h": dense_tensor()[1].select_patients(np.arange(3))}
    with pytest.raises(SettingsError, match="fewer than 4"):
        choose_rank(tiny, [2], SETTINGS)
