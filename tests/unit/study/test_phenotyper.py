"""The estimator with scikit-learn's manners, beside scikit-learn itself."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
import sysconfig
import zipfile
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

import tripheno
from kit.planted import planted
from tripheno.errors import DisjointCodes, SettingsError
from tripheno.solver.settings import SolverSettings

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def tensors():
    return list(planted(0).hospitals.values())


@pytest.fixture(scope="module")
def fitted(tensors):
    return tripheno.Phenotyper(3, starts=2, tol=1e-3, resamples=3).fit(tensors)


def test_every_parameter_is_documented_with_its_type_default_and_meaning():
    text = inspect.getdoc(tripheno.Phenotyper)
    for name, parameter in inspect.signature(tripheno.Phenotyper).parameters.items():
        line = re.search(rf"^{name} : .+, default (.+)$\n    \S", text, re.MULTILINE)
        assert line, name
        said = line[1].strip('"')
        assert said == str(parameter.default) or float(said) == parameter.default, name


def test_every_setting_of_the_solver_is_a_parameter_with_the_same_default():
    known = tripheno.Phenotyper().get_params()
    for field in fields(SolverSettings):
        name = "random_state" if field.name == "seed" else field.name
        assert known[name] == field.default, name


def test_values_are_checked_by_fit_and_not_before(tensors):
    model = tripheno.Phenotyper(3, method="magic")
    with pytest.raises(SettingsError, match="method is 'magic'"):
        model.fit(tensors)
    with pytest.raises(SettingsError, match="resamples"):
        tripheno.Phenotyper(3, resamples=51).fit(tensors)


@pytest.mark.parametrize("given", [{"n_components": "3"}, {"random_state": None}])
def test_what_is_no_number_is_said_and_no_traceback(tensors, given):
    with pytest.raises(SettingsError, match="must be a number"):
        tripheno.Phenotyper(**given).fit(tensors)


def test_a_number_of_numpy_is_a_number(tensors):
    model = tripheno.Phenotyper(np.int64(2), starts=1, tol=1e-2, random_state=np.int32(1))
    assert len(model.fit(tensors).weights_) == 2


def test_what_is_impossible_is_said_before_anything_is_fitted():
    cells = {"indices": [[0, 0, 0], [1, 1, 1]], "values": [1, 2], "shape": (2, 2, 2)}
    two = tripheno.CountTensor.from_cells(**cells, modes=["medication", "diagnosis"])
    with pytest.raises(SettingsError, match="500 phenotypes of 4 patients and 4 cells"):
        tripheno.Phenotyper(500).fit([two, two])
    tables = [
        {"patient": [0, 0], "window": [0, 0], "mode": ["medication", "diagnosis"],
         "code": ["aspirin", f"{system}:1"]} for system in ("ICD9CM", "ICD10CM")
    ]  # fmt: skip
    with pytest.raises(DisjointCodes, match="shares no diagnosis code"):
        tripheno.Phenotyper(1).fit(tables)


def test_resampled_patients_grade_the_phenotypes(fitted, tensors):
    assert [one.grade for one in fitted.grades_] == ["stable"] * 3
    pooled = tripheno.Phenotyper(3, method="central", starts=2, tol=1e-3, resamples=2).fit(tensors)
    assert len(pooled.grades_) == 3
    assert tripheno.Phenotyper(3, starts=1, tol=1e-2).fit(tensors).grades_ == ()


def test_tensor_and_model_say_what_they_are_in_text_and_in_a_notebook(fitted, tensors):
    assert re.fullmatch(r"<CountTensor: [\d,]+ patients, .* codes, [\d,]+ cells>", repr(tensors[0]))
    assert "<table>" in tensors[0]._repr_html_()
    assert repr(fitted) == "Phenotyper(n_components=3, tol=0.001, starts=2, resamples=3)"
    page = fitted._repr_html_()
    assert page.count("<tr>") == 4
    assert "stable" in page
    assert "not fitted" in tripheno.Phenotyper()._repr_html_()


class TestBesideScikitLearn:
    @pytest.fixture(autouse=True)
    def there(self):
        pytest.importorskip("sklearn")

    def test_the_estimator_checks_that_apply_pass(self):
        from sklearn.utils import estimator_checks as checks

        for check in (
            checks.check_no_attributes_set_in_init,
            checks.check_parameters_default_constructible,
            checks.check_get_params_invariance,
            checks.check_estimator_cloneable,
            checks.check_do_not_raise_errors_in_init_or_set_params,
        ):
            check("Phenotyper", tripheno.Phenotyper())

    def test_a_clone_has_the_parameters_and_nothing_learnt(self, fitted):
        from sklearn.base import clone

        copy = clone(fitted)
        assert copy.get_params() == fitted.get_params()
        assert not hasattr(copy, "solution_")

    def test_it_is_a_step_of_a_pipeline(self, tensors):
        from sklearn.pipeline import Pipeline
        from sklearn.preprocessing import FunctionTransformer

        line = Pipeline(
            [
                ("phenotypes", tripheno.Phenotyper(3, starts=1, tol=1e-2)),
                ("stack", FunctionTransformer(np.vstack)),
            ]
        ).set_params(phenotypes__n_components=2)
        rows = line.fit_transform(tensors)
        assert rows.shape == (sum(tensor.patients for tensor in tensors), 2)
        assert np.abs(line.transform(tensors) - rows).max() < 1e-12

    def test_it_may_be_the_last_step(self, tensors):
        from sklearn.pipeline import make_pipeline

        line = make_pipeline(tripheno.Phenotyper(2, starts=1, tol=1e-2))
        assert "Phenotyper" in line._repr_html_()
        assert [len(rows) for rows in line.fit(tensors).transform(tensors)] == [
            tensor.patients for tensor in tensors
        ]

    def test_what_is_not_fitted_raises_the_error_that_scikit_learn_catches(self):
        from sklearn.exceptions import NotFittedError

        with pytest.raises(NotFittedError) as caught:
            tripheno.Phenotyper().get_feature_names_out("diagnosis")
        assert isinstance(caught.value, tripheno.NotFittedError)
        with pytest.raises(NotFittedError):
            tripheno.Phenotyper().transform([])


@pytest.fixture
def outside(tmp_path):
    """A Python that has the wheel and not the sources, its dependencies borrowed from this one."""
    words = ["-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path), str(ROOT)]
    subprocess.run([sys.executable, *words], check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    home = tmp_path / "python"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(home)], check=True)
    python = home / "bin" / "python"
    asked = [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    site = Path(subprocess.check_output(asked, text=True).strip())
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(site)
    own = Path(sysconfig.get_path("purelib"))
    for package in own.iterdir():  # all but the sources that an editable install points at
        if "tripheno" not in package.name and package.suffix != ".pth":
            (site / package.name).symlink_to(package)
    return python


def test_a_type_checker_outside_the_package_sees_the_types_of_the_installed_wheel(
    outside, tmp_path
):
    user = tmp_path / "user.py"
    user.write_text(
        "import tripheno\n"
        "model = tripheno.Phenotyper(3, resamples=2)\n"
        "reveal_type(model.n_components)\n"
        "run = tripheno.load_run('x')\n"
        "reveal_type(run.summary)\n"
        "run.plot_prevalence().save('p.html')\n"
        "tripheno.Phenotyper(colour='blue')\n"
    )
    words = ["--strict", "--no-incremental", "--python-executable", str(outside), str(user)]
    seen = subprocess.run([sys.executable, "-m", "mypy", *words], capture_output=True, text=True,
                          cwd=tmp_path, check=False).stdout  # fmt: skip
    assert 'Revealed type is "int"' in seen or 'Revealed type is "builtins.int"' in seen
    assert "dict[" in seen
    assert 'Unexpected keyword argument "colour"' in seen
    assert seen.splitlines()[-1].startswith("Found 1 error in 1 file"), seen
