"""What an export is made of, from one small run."""

from __future__ import annotations

import json
import warnings
from dataclasses import replace

import pyarrow as pa
import pytest

from kit.planted import planted
from tripheno.errors import NoConceptIds, NoSuchFile
from tripheno.evaluation.membership import ALPHA
from tripheno.report.exports.atlas import cohort_definition, concept_ids
from tripheno.report.exports.card import model_card
from tripheno.report.exports.chosen import Wanted, open_source
from tripheno.report.exports.fhir import SYSTEMS, value_set
from tripheno.report.exports.matrices import write_anndata, write_meds
from tripheno.report.exports.slides import write_slides
from tripheno.report.exports.tables import arrow_of, run_tables
from tripheno.report.loaded import load_run
from tripheno.report.rule import RULE
from tripheno.report.simulated import run_simulation
from tripheno.solver.settings import SolverSettings
from tripheno.study.simulation import Simulation, assemble


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    folder = tmp_path_factory.mktemp("parts") / "run"
    settings = SolverSettings(3, "exact", max_iter=5, starts=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        study = Simulation(assemble(planted(0).hospitals), settings, {}, beside=(), resamples=0)
        run_simulation(study, folder, 0.0)
    return open_source(folder, Wanted(unstable=True))


def test_a_value_set_holds_every_code_of_its_phenotype_under_a_system(source):
    for one in source.chosen():
        made = value_set(one, source)
        codes = [c["code"] for part in made["compose"]["include"] for c in part["concept"]]
        assert made["status"] == "draft"
        assert len(codes) == sum(len(ranked) for ranked in one.codes.values())
    assert set(SYSTEMS) >= {"ICD9CM", "ICD10CM"}


def test_a_card_says_which_run_it_is_about_and_breaks_no_table(source):
    text = model_card(source)
    assert source.report.annotations.run in text
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert rows
    assert all(line.endswith("|") for line in rows)


def test_a_card_tells_the_inputs_and_what_took_no_part(source):
    run = {
        **source.run,
        "left_out": {"south": "no code of diagnosis"},
        "lacking": {"north": [{"name": None, "mode": "diagnosis", "share": 0.3}]},
        "set_aside": [{"mode": "medication", "name": "saline", "why": "everybody has it"}],
        "codes_removed": {"diagnosis": 1_234},
        "provenance": {**source.run["provenance"], "inputs": {"cells": "ab" * 32}},
    }
    text = model_card(replace(source, report=replace(source.report, run=run)))
    for words in ("| cells | sha256 abababababababab |",
                  "south took no part: no code of diagnosis.",
                  "north has none of these, which the others use often: a code known to others.",
                  "saline (medication): everybody has it", "1,234 of diagnosis",
                  "Counts of 1 to 10 people are withheld."):  # fmt: skip
        assert words in text


def test_tables_have_a_row_for_every_phenotype(source):
    tables = run_tables(source)
    assert len(tables["evidence"]) == 1 + len(source.report.phenotypes)
    mixed = arrow_of([["a", "b"], [1, "x"], [2, 3]])
    assert mixed.schema.field("b").type == pa.string()
    assert mixed["b"].to_pylist() == ["x", "3"]


def test_codes_that_are_no_concepts_make_no_cohort(source):
    with pytest.raises(NoConceptIds):
        concept_ids(source)
    sets = [
        {"id": n, "name": mode, "mode": mode, "expression": {}, "criteria": kind}
        for n, (mode, kind) in enumerate(
            [("medication", "DrugExposure"), ("diagnosis", "ConditionOccurrence")]
        )
    ]
    made = cohort_definition(sets)
    assert made["PrimaryCriteria"]["CriteriaList"] == [{"ConditionOccurrence": {"CodesetId": 1}}]
    assert [rule["name"] for rule in made["InclusionRules"]] == [
        "has a medication of the phenotype"
    ]


def test_slides_begin_with_the_summary(source, tmp_path):
    from pptx import Presentation

    (path,) = write_slides(source, tmp_path)
    assert len(Presentation(str(path)).slides) >= 1 + len(source.chosen())


def test_patients_are_exported_only_once_they_are_scored(source, tmp_path):
    import anndata

    paths = write_anndata(source, tmp_path)
    assert anndata.read_h5ad(paths[0]).n_obs == len(source.chosen())
    with pytest.raises(NoSuchFile):
        write_meds(open_source(source.folder, Wanted(True, scored=tmp_path)), tmp_path)


def test_a_loaded_run_says_what_its_file_says(source):
    run = load_run(source.folder)
    assert run.summary == json.loads((source.folder / "run.json").read_text())
    assert run.evidence.num_rows == len(run.phenotypes)


def test_the_rule_for_having_a_phenotype_names_its_share_of_chance():
    assert f"{100 * (1 - ALPHA):g} %" in RULE
