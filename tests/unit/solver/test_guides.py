from __future__ import annotations

import itertools

import numpy as np
import pytest

import tripheno
from kit.planted import planted
from tripheno.errors import BadGuide, NoSuchFile, SettingsError, TriphenoWarning
from tripheno.evaluation.grades import likeness
from tripheno.evaluation.recovery import recovery
from tripheno.exchange.communicator import in_clear
from tripheno.report.phenotypes import phenotypes_of
from tripheno.report.run_folder import read_report
from tripheno.report.simulated import run_simulation
from tripheno.solver.fit import fit
from tripheno.solver.guides import Guide, as_guides, guide_columns, read_guides
from tripheno.solver.settings import SolverSettings
from tripheno.study.evidence import resampled
from tripheno.study.simulation import Simulation, assemble
from tripheno.vocabulary.axis import Axis

NAME = "Chronic kidney disease"


def the_planted(seed=0):
    """The network, and three diagnosis codes of a phenotype that three components do not find."""
    network = planted(seed)
    axis = next(iter(network.hospitals.values())).axes[1]
    which = network.names.index(NAME)
    top = np.argsort(-network.factors[1][:, which])[:3]
    return network, Guide(NAME, {"diagnosis": tuple(axis.codes[n] for n in top)}), which


def similarity(network, solution, which):
    axes = next(iter(network.hospitals.values())).axes
    truth = {axis.mode: factor for axis, factor in zip(axes, network.factors, strict=True)}
    return recovery(list(network.names), truth, solution.by_mode)[which]


@pytest.mark.parametrize("method", ["central", "exact", "trip"])
def test_a_guided_phenotype_is_found_where_too_few_components_would_leave_it_out(method):
    network, guide, which = the_planted()
    settings = SolverSettings(3, method, tol=1e-3, guides=(guide,))
    found = fit(network.hospitals, settings)
    match = similarity(network, found, which)
    assert match.similarity > 0.9
    assert match.component == found.guided[0]
    named = phenotypes_of(found)[found.guided[0]]
    assert named.title == NAME
    assert named.guided.followed
    assert named.guided.codes == 3


def test_resamples_pull_the_guided_phenotype_and_no_other_to_its_codes():
    network, guide, _ = the_planted()
    asked = SolverSettings(
        6, "exact", guides=(guide,), guide_pull=0.3, starts=1, influence="none", max_iter=300
    )
    found = fit(network.hospitals, asked)
    assert found.guided != (0,)  # it is not the strongest: penalties know it as the first
    drawn = {name: np.ones((tensor.patients, 1)) for name, tensor in network.hospitals.items()}
    models, _ = resampled(in_clear(network.hospitals), network.hospitals, found, drawn)
    assert likeness(found.factors, models) == pytest.approx(np.ones((1, 6)), abs=1e-4)


def test_without_the_guide_it_is_not_found():
    network, _, which = the_planted()
    found = fit(network.hospitals, SolverSettings(3, "central", starts=1, influence="none"))
    assert not similarity(network, found, which).found


def test_the_name_and_what_became_of_the_seed_stand_in_the_report(tmp_path):
    network, guide, _ = the_planted()
    settings = SolverSettings(3, "exact", tol=1e-2, guides=(guide,))
    study = Simulation(assemble(network.hospitals), settings, {}, beside=(), resamples=0)
    run_simulation(study, tmp_path / "run", 0.0)
    page = (tmp_path / "run" / "report.html").read_text()
    assert f"<bdi>{NAME}</bdi></h3>" in page
    assert "Guided from 3 codes" in page
    assert [p.title for p in read_report(tmp_path / "run").phenotypes].count(NAME) == 1


def test_a_guide_that_the_data_do_not_follow_gives_no_name():
    network, _, _ = the_planted()
    axis = next(iter(network.hospitals.values())).axes[1]
    rare = np.argsort(network.factors[1].max(axis=1))[:1]  # a code no phenotype has
    guide = Guide("Fancy", {"diagnosis": tuple(axis.codes[n] for n in rare)})
    found = fit(network.hospitals, SolverSettings(3, "exact", tol=1e-3, guides=(guide,)))
    shown = phenotypes_of(found)[found.guided[0]]
    assert not shown.guided.followed
    assert shown.title != "Fancy"


def test_the_pull_never_raises_the_objective_of_exact():
    network, guide, _ = the_planted()
    settings = SolverSettings(3, "exact", tol=1e-5, guides=(guide,), guide_pull=0.5)
    values = [line.objective for line in fit(network.hospitals, settings).history]
    assert all(b <= a * (1 + 1e-12) for a, b in itertools.pairwise(values))


def test_codes_are_known_by_code_and_by_label_in_any_case():
    axis = Axis("diagnosis", 2, ("I50", "E11"), {"I50": "Heart failure"})
    columns = guide_columns([axis], [Guide("a", {"diagnosis": ("heart FAILURE", "E11")})], 1)
    assert columns[0][:, 0] == pytest.approx([np.sqrt(0.5)] * 2)


def test_codes_that_are_not_there_are_counted_or_refused():
    axis = Axis("diagnosis", 2, ("I50", "E11"))
    with pytest.warns(TriphenoWarning, match="1 of its codes are not in the data: X"):
        guide_columns([axis], [Guide("a", {"diagnosis": ("I50", "X")})], 1)
    with pytest.raises(BadGuide, match="none of the codes of 'a'"):
        guide_columns([axis], [Guide("a", {"diagnosis": ("X",)})], 1)
    with pytest.raises(BadGuide, match="no mode lab"):
        guide_columns([axis], [Guide("a", {"lab": ("X",)})], 1)


def test_a_guide_file_is_read_and_its_faults_are_named(tmp_path):
    path = tmp_path / "guides.toml"
    path.write_text('["Heart failure"]\ndiagnosis = ["I50"]\n')
    assert read_guides(path) == (Guide("Heart failure", {"diagnosis": ("I50",)}),)
    for text, fault in (("[", "no TOML"), ("", "no guide"), ("a = 1", "no codes by mode"),
                        ("[a]\nd = [1]", "not a list of codes")):  # fmt: skip
        path.write_text(text)
        with pytest.raises(BadGuide, match=fault):
            read_guides(path)
    with pytest.raises(NoSuchFile):
        read_guides(tmp_path / "nowhere.toml")


def test_settings_refuse_guides_that_cannot_be():
    two = as_guides({"a": {"d": ["x"]}, "b": {"d": ["y"]}})
    with pytest.raises(SettingsError, match="2 guides for 1 components"):
        SolverSettings(1, guides=two)
    with pytest.raises(SettingsError, match="same name"):
        SolverSettings(2, guides=(two[0], two[0]))
    with pytest.raises(SettingsError, match="knows no guides"):
        SolverSettings(2, "trip", variant="released", guides=two)


def test_phenotyper_takes_guides_by_name_and_says_which_component_they_became():
    network, guide, which = the_planted()
    codes = {mode: list(codes) for mode, codes in guide.codes.items()}
    model = tripheno.Phenotyper(3, method="exact", tol=1e-2, guides={NAME: codes})
    model.fit(list(network.hospitals.values()))
    match = similarity(network, model.solution_, which)
    assert model.guided_ == {NAME: match.component}
    assert model.get_params()["guides"] == {NAME: codes}
