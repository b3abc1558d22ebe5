"""Each kind of bad or odd input: a clear error or a sound result."""

from __future__ import annotations

import numpy as np
import pytest

import tripheno
from kit.planted import planted
from tripheno.errors import (
    BadCells,
    BadShape,
    EmptyTensor,
    SettingsError,
    TooManyHospitals,
    TriphenoWarning,
)
from tripheno.evaluation.comparison import share_out
from tripheno.solver.federated import common_axes
from tripheno.solver.fit import fit
from tripheno.solver.settings import SolverSettings
from tripheno.solver.tournament import FINAL
from tripheno.study.evidence import choose_rank
from tripheno.study.simulation import assemble
from tripheno.tensor.count_tensor import CountTensor
from tripheno.vocabulary.axis import Axis

METHODS = ["trip", "exact", "central", "local"]
ignore_notes = pytest.mark.filterwarnings("ignore::tripheno.errors.TriphenoWarning")


def test_no_hospital_and_no_rank_are_refused_in_words():
    with pytest.raises(SettingsError, match="no hospital"):
        common_axes({})
    with pytest.raises(SettingsError, match="no rank"):
        choose_rank({}, (), SolverSettings(2))


def empty_like(tensor):
    return tensor.select_patients(np.array([], dtype=np.int64))


def test_an_empty_hospital_is_named_and_refused():
    hospitals = dict(planted(0).hospitals)
    hospitals["ghost"] = empty_like(hospitals["hospital-1"])
    with pytest.raises(EmptyTensor, match=r"TRIP-E304 .*ghost"):
        assemble(hospitals)


@ignore_notes
@pytest.mark.parametrize("method", METHODS)
def test_a_hospital_with_one_patient_takes_part(method):
    whole = planted(0).together
    busiest = int(np.diff(whole.cells.starts).argmax())
    others = np.delete(np.arange(whole.patients), busiest)
    hospitals = {
        "one": whole.select_patients(np.array([busiest])),
        "rest": whole.select_patients(others),
    }
    found = fit(hospitals, SolverSettings(4, method, max_iter=20))
    assert np.isfinite(found.objective)
    assert found.patients == whole.patients
    assert found.patient_factors.get("one", np.zeros((1, 4))).shape == (1, 4)


@ignore_notes
@pytest.mark.parametrize("method", METHODS)
def test_a_code_that_one_hospital_alone_has_gets_its_row(method):
    one = CountTensor.from_cells(
        [[0, 0, 0], [1, 1, 1]], [2, 3], axes=[Axis("m", 2, ("a", "b")), Axis("d", 2, ("x", "y"))]
    )
    two = CountTensor.from_cells(
        [[0, 0, 0], [1, 1, 0]], [1, 5], axes=[Axis("m", 2, ("b", "c")), Axis("d", 1, ("y",))]
    )
    federation = assemble({"one": one, "two": two})
    first, second = federation.axes
    assert (sorted(first.codes), sorted(second.codes)) == (["a", "b", "c"], ["x", "y"])
    found = fit(federation.tensors, SolverSettings(2, method, influence="none"))
    assert [factor.shape for factor in found.factors] == [(3, 2), (2, 2)]
    assert found.factors[0][first.codes.index("c")].max() > 0


@pytest.mark.parametrize(
    ("values", "word"),
    [([1.0, np.nan], "not finite"), ([1, -2], "negative"), ([1.0, 0.5], "fractional")],
)
def test_counts_that_are_no_counts_are_refused(values, word):
    with pytest.raises(BadCells, match=f"TRIP-E303 a count is {word}"):
        CountTensor.from_cells([[0, 0, 0], [1, 1, 1]], values)


@ignore_notes
@pytest.mark.parametrize("constraint", ["nonnegative", "none", "sparse"])
@pytest.mark.parametrize("method", METHODS)
def test_a_rank_larger_than_a_dimension_gives_a_sound_result(method, constraint):
    rng = np.random.default_rng(0)
    dense = rng.poisson(1.0, (30, 4, 3))
    tensor = CountTensor.from_cells(np.argwhere(dense), dense[dense > 0], shape=dense.shape)
    hospitals = share_out(tensor, 3, None, rng)
    found = fit(hospitals, SolverSettings(6, method, constraint=constraint, max_iter=30))
    assert np.isfinite(found.objective)
    assert found.objective >= 0
    assert found.rmse.nonzeros < np.sqrt((dense[dense > 0] ** 2).mean())


def test_a_rank_the_data_does_not_support_is_said_aloud():
    tensor = CountTensor.from_cells([[0, 0, 0], [1, 0, 0]], [1, 2], shape=(2, 3, 3))
    with pytest.warns(TriphenoWarning):
        found = fit({"h": tensor}, SolverSettings(3, "exact"))
    assert found.rmse.all_cells < 1e-4


def test_an_all_zero_tensor_is_refused():
    with pytest.raises(EmptyTensor, match="TRIP-E304 Every count is zero"):
        CountTensor.from_cells([[0, 0, 0]], [0])


@ignore_notes
@pytest.mark.parametrize("method", METHODS)
def test_one_hospital_alone_equals_central(method):
    tensor = planted(0).together
    settings = SolverSettings(5, method, max_iter=40)
    found = fit({"only": tensor}, settings)
    central = fit({"only": tensor}, SolverSettings(5, "central", max_iter=40))
    tolerance = 1e-9 if method != "trip" else 6e-4
    assert abs(found.rmse.nonzeros / central.rmse.nonzeros - 1) < tolerance


def test_more_hospitals_than_patients_is_refused():
    tensor = CountTensor.from_cells([[0, 0, 0], [1, 1, 1]], [1, 1])
    with pytest.raises(TooManyHospitals, match="3 hospitals for 2 patients"):
        share_out(tensor, 3, None, np.random.default_rng(0))


def test_hospitals_on_different_axes_are_refused_by_the_solver():
    one = CountTensor.from_cells([[0, 0, 0]], [1], shape=(1, 2, 2))
    two = CountTensor.from_cells([[0, 0, 0]], [1], shape=(1, 2, 3))
    with pytest.raises(BadShape, match="axes differ"):
        fit({"one": one, "two": two}, SolverSettings(1, "exact"))


def test_all_faults_of_the_settings_are_listed_at_once():
    with pytest.raises(SettingsError) as caught:
        SolverSettings(0, "magic", constraint="soft", tol=-1.0, relaxation=3.0)
    for word in ("n_components", "method", "constraint", "tol", "relaxation"):
        assert word in str(caught.value)


def test_the_printed_variant_asks_for_the_penalties_the_paper_does_not_give():
    with pytest.raises(SettingsError, match="printed variant needs consensus_penalty"):
        SolverSettings(3, "trip", variant="printed")


class TestPhenotyper:
    def test_it_fits_and_scores_event_tables_like_scikit_learn(self):
        from tripheno.lab.synthetic.network import SyntheticSettings, synthetic_network

        network = synthetic_network(SyntheticSettings(patients_per_hospital=(120, 100, 80)))
        tables = [hospital.events for hospital in network.hospitals]
        model = tripheno.Phenotyper(4, method="exact", max_iter=30, tol=1e-4, influence="none")
        memberships = model.fit_transform(tables)
        assert [len(rows) for rows in memberships] == [120, 100, 80]
        assert set(model.components_) == {"medication", "diagnosis"}
        assert model.n_iter_ == len(model.history_) <= FINAL + 30
        assert (np.diff(model.weights_) <= 0).all()
        names = model.get_feature_names_out("diagnosis")
        assert len(names) == len(model.components_["diagnosis"])
        weights, factors = model.to_tensorly()
        assert [len(factor) for factor in factors] == list(model.solution_.shape)
        assert np.abs(weights / model.weights_ - 1).max() < 1e-12
        stored = model.solution_.patient_factors
        for rows, own in zip(memberships, stored.values(), strict=True):
            assert np.abs(rows - own).max() < 1e-8

    @pytest.mark.filterwarnings("ignore::tripheno.errors.TriphenoWarning")
    def test_new_patients_with_unknown_codes_are_scored_with_a_warning(self):
        axes = [Axis("m", 2, ("a", "b")), Axis("d", 2, ("x", "y"))]
        tensor = CountTensor.from_cells([[0, 0, 0], [1, 1, 1]], [2, 3], axes=axes)
        model = tripheno.Phenotyper(2, method="central").fit([tensor])
        stranger = CountTensor.from_cells(
            [[0, 0, 0]], [4], axes=[Axis("m", 2, ("a", "zzz")), Axis("d", 1, ("x",))]
        )
        with pytest.warns(TriphenoWarning, match="1 of 2 m codes are unknown"):
            rows = model.transform(stranger)
        assert rows.shape == (1, 2)
        assert rows.max() > 0

    def test_parameters_can_be_read_and_set(self):
        model = tripheno.Phenotyper(3, sparsity=0.5)
        assert model.get_params()["sparsity"] == 0.5
        assert model.set_params(n_components=4, sparsity=0.1).get_params()["n_components"] == 4
        with pytest.raises(SettingsError, match="colour"):
            model.set_params(colour="blue")

    def test_it_says_when_it_is_not_fitted(self):
        with pytest.raises(SettingsError, match="not fitted"):
            tripheno.Phenotyper().get_feature_names_out("diagnosis")
