"""From EHR tables to named phenotypes: ingest, then a federation of three or more hospitals."""

import json

import pytest
from typer.testing import CliRunner

from kit.requirements import shared_data
from tripheno.cli.main import app

UCI = """
[[source.tables]]
file = "diabetic_data.csv.gz"
mode = "diagnosis"
patient = "patient_nbr"
visit = "encounter_id"
code = ["diag_1", "diag_2", "diag_3"]
system = "ICD9CM"

[[source.tables]]
file = "diabetic_data.csv.gz"
mode = "medication"
patient = "patient_nbr"
visit = "encounter_id"
flags = ["metformin", "glimepiride", "glipizide", "glyburide", "pioglitazone", "insulin"]
absent = ["No"]
"""


def run(*words):
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == 0, result.output
    return result.stdout


def simulate(folder, *sites_and_options):
    run(
        "simulate", *sites_and_options, "--out", folder, "--rank", 3,
        "--max-iter", 5, "--starts", 1, "--resamples", 0, "--format", "json",
    )  # fmt: skip
    summary = json.loads((folder / "run.json").read_text())
    phenotypes = list(folder.rglob("phenotypes.json"))
    assert phenotypes
    return summary, phenotypes[0].read_text()


def test_the_regions_of_eicu_are_the_hospitals(tmp_path):
    site, data = tmp_path / "sites", shared_data("eicu-demo-2.0.1-dev")
    run("ingest", "eicu", data, "--out", site, "--by", "region", "--cap", 3)
    regions = [site / name for name in ("Midwest", "Northeast", "South", "West")]
    summary, text = simulate(tmp_path / "run", *regions, "--method", "all")
    assert summary["shape"][0] > 0
    assert "respiratory failure" in text or "sepsis" in text or "hypertension" in text


@pytest.mark.parametrize(
    ("source", "data", "options", "label"),
    [
        ("mimic", "mimic-iii-demo-1.4", ("--modes", "medication,lab", "--cap", 3), "Urea N"),
        ("mimic", "mimic-iv-demo-2.2-dev", ("--rollup", "ccsr"), "(CIR"),
        ("omop", "synthea1k-omop", ("--window", "person"), "sinusitis"),
        ("fhir", "mimic-iv-demo-fhir-2.1.0-dev", (), "acetaminophen"),
        ("flat", "uci-diabetes-130-dev", ("--settings", "site.toml"), "insulin"),
    ],
)
def test_a_source_runs_from_its_tables_to_named_phenotypes(
    tmp_path, monkeypatch, source, data, options, label
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "site.toml").write_text(UCI)
    run("ingest", source, shared_data(data), "--out", tmp_path / "site", *options)
    words = ("--hospitals", 3, "--no-compare")
    summary, text = simulate(tmp_path / "run", tmp_path / "site", *words)
    assert summary["nonzeros"] > 0
    assert label.casefold() in text.casefold()
