"""The tensors that the open EHR data give: figures computed independently, by the rule named."""

import json

import pytest
from typer.testing import CliRunner

from kit.requirements import shared_data
from tripheno.cli.main import app


def coverage(tmp_path, source, folder, *options):
    words = ["ingest", source, str(shared_data(folder)), "--out", str(tmp_path / "site")]
    result = CliRunner().invoke(app, [*words, "--format", "json", *options])
    assert result.exit_code == 0
    return json.loads(result.stdout)


MIMIC, EICU, SYNTHEA = "mimic-iii-demo-1.4", "eicu-demo-2.0.1-dev", "synthea1k-omop"
LABS = ("--modes", "medication,lab")
FOLDED = ("--drug-names", "folded")
FIGURES = {
    "MIMIC-III drugs × abnormal labs by admission": (
        ("mimic", MIMIC, *LABS, *FOLDED), [94, 571, 167], 137_130,
    ),
    "the same with ingredients, as clinicians read them": (
        ("mimic", MIMIC, *LABS), [94, 419, 167], 119_330,
    ),
    "eICU ingredients × ICD-9 by unit stay": (("eicu", EICU), [518, 712, 273], 44_256),
    "the same with raw drug names": (
        ("mimic", MIMIC, *LABS, "--drug-names", "raw"), [94, 592, 167], 137_369,
    ),
    "same calendar day, at the order's start": (
        ("mimic", MIMIC, *LABS, *FOLDED, "--window", "same-day"), [94, 564, 162], 75_186,
    ),
    "lab day within the order's interval": (
        ("mimic", MIMIC, *LABS, *FOLDED, "--window", "same-day", "--anchor", "interval"),
        [94, 565, 163], 99_318,
    ),
    "MIMIC-III drugs × ICD-9 diagnoses by admission": (
        ("mimic", MIMIC, "--modes", "medication,diagnosis", *FOLDED), [94, 571, 564], 62_022,
    ),
    "eICU HICL × ICD-9 by unit stay": (("eicu", EICU, *FOLDED), [515, 755, 272], 43_956),
    "MEDS medications × diagnoses by person": (
        ("meds", "mimic-iv-demo-meds-dev", "--window", "person"), [40, 426, 732], 81_988,
    ),
    "Synthea drugs × conditions by person": (
        ("omop", SYNTHEA, "--window", "person"), [1_095, 145, 124], 51_644,
    ),
    "Synthea drugs × conditions by visit": (
        ("omop", SYNTHEA, "--window", "visit"), [996, 103, 92], 3_839,
    ),
    "Synthea by visit, records without a visit joined by their day": (
        ("omop", SYNTHEA, "--window", "visit", "--without-visit", "date"), [996, 103, 92], 3_865,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FIGURES)
def test_the_tensor_is_the_one_computed_independently(tmp_path, name):
    words, shape, nonzeros = FIGURES[name]
    tensor = coverage(tmp_path, *words)["tensor"]
    assert (tensor["shape"], tensor["nonzeros"]) == (shape, nonzeros)


def test_the_labs_of_mimic_without_an_admission_are_counted(tmp_path):
    report = coverage(tmp_path, "mimic", MIMIC, *LABS)
    labs = next(table for table in report["tables"] if table["mode"] == "lab")
    assert labs["read"] == 76_074
    assert labs["dropped"] == {"no visit": 5_313, "not abnormal": 46_564}
    assert labs["share_without_visit"] == pytest.approx(0.187, abs=1e-3)


def test_labs_without_an_admission_can_take_the_one_under_way(tmp_path):
    report = coverage(tmp_path, "mimic", MIMIC, *LABS, "--infer-visit")
    labs = next(table for table in report["tables"] if table["mode"] == "lab")
    assert labs["visits"]["inferred"] + labs["visits"]["none"] == 14_262
    assert labs["dropped"]["no visit"] < 5_313


def test_orders_that_end_before_they_start_are_counted(tmp_path):
    words = ("--window", "same-day", "--anchor", "interval")
    report = coverage(tmp_path, "mimic", MIMIC, *LABS, *words)
    orders = next(table for table in report["tables"] if table["mode"] == "medication")
    assert orders["dropped"] == {"ends before it starts": 39}


def test_eicu_gives_one_folder_per_region(tmp_path):
    report = coverage(tmp_path, "eicu", EICU, "--by", "region", "--drug-names", "folded")
    patients = {site["site"]: site["tensor"]["shape"][0] for site in report["sites"]}
    assert patients == {
        "Midwest": 267, "Northeast": 32, "South": 107, "West": 84, "region-not-recorded": 25,
    }  # fmt: skip
    assert sum(patients.values()) == 515
    for name in patients:
        assert (tmp_path / "site" / name / "events.parquet").is_file()


def test_eicu_hospitals_without_a_mode_are_left_out_and_named(tmp_path):
    report = coverage(tmp_path, "eicu", EICU, "--by", "hospitalid")
    assert len(report["sites"]) + len(report["skipped"]) == 83
    assert report["skipped"]["133"] == "The mode 'medication' is empty"
    assert not (tmp_path / "site" / "133").exists()


def test_eicu_labs_are_judged_by_the_sites_own_ranges(tmp_path):
    ranges = shared_data("vocab") / "eicu_lab_hourly_ranges.csv"
    report = coverage(tmp_path, "eicu", EICU, *LABS, "--reference-ranges", str(ranges))
    labs = next(table for table in report["tables"] if table["mode"] == "lab")
    assert labs["rules"] == {"site range": labs["used"] + labs["dropped"]["not abnormal"]}


def test_mimic_four_is_recognised_and_holds_both_icd_versions(tmp_path):
    report = coverage(tmp_path, "mimic", "mimic-iv-demo-2.2-dev", "--rollup", "ccs")
    assert report["described"] == "MIMIC-IV"
    assert all(top["code"].startswith("CCS:") for top in report["modes"]["diagnosis"]["top"])
    assert all(top["label"] for top in report["modes"]["diagnosis"]["top"])


def test_fhir_gives_the_diagnoses_of_the_same_patients_as_the_tables(tmp_path):
    tables = coverage(tmp_path / "a", "mimic", "mimic-iv-demo-2.2-dev")
    resources = coverage(tmp_path / "b", "fhir", "mimic-iv-demo-fhir-2.1.0-dev")
    one, other = tables["modes"]["diagnosis"], resources["modes"]["diagnosis"]
    assert (one["patients"], one["codes"], one["events"]) == (40, 732, 1_573)
    assert [one["patients"], one["codes"], one["events"]] == [
        other["patients"], other["codes"], other["events"],
    ]  # fmt: skip
    assert [top["code"] for top in one["top"]] == [top["code"] for top in other["top"]]


def test_phecodes_come_from_the_catalogues_own_file(tmp_path):
    file = shared_data("vocab") / "phecode_map_v1_2_icd9.csv.gz"
    report = coverage(tmp_path, "mimic", MIMIC, "--rollup", f"diagnosis={file}")
    diagnoses = next(table for table in report["tables"] if table["mode"] == "diagnosis")
    assert diagnoses["share_unmapped"] < 0.04
    assert {"code": "401.1", "label": "Essential hypertension", "patients": 37} in report["modes"][
        "diagnosis"
    ]["top"]


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
flags = ["metformin", "glipizide", "glyburide", "insulin", "glyburide-metformin"]
absent = ["No"]
"""


def test_a_flat_table_is_read_by_its_mapping(tmp_path):
    (tmp_path / "site.toml").write_text(UCI)
    report = coverage(
        tmp_path, "flat", "uci-diabetes-130-dev", "--settings", str(tmp_path / "site.toml")
    )
    # one of the 35,775 patients has no code but those that lost their zeros ("8" for 008)
    assert report["modes"]["diagnosis"]["patients"] == 35_774
    assert report["modes"]["medication"]["codes"] == 5
    codes = {top["code"] for top in report["modes"]["diagnosis"]["top"]}
    assert "ICD9CM:250" in codes
    assert "ICD9CM:?" not in codes


def test_a_ready_made_tensor_comes_back_cell_by_cell(tmp_path):
    report = coverage(tmp_path, "flat", "tensors/splatt_med.tns.gz")
    assert report["tensor"]["nonzeros"] == 100_000
