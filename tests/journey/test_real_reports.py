"""From open EHR data to a page that a physician can read."""

from __future__ import annotations

import json
import re

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from kit.requirements import shared_data
from tripheno.cli.main import app

SOURCES = {
    "eicu": ("eicu-demo-2.0.1-dev", ["--by", "region"], []),
    "mimic": ("mimic-iii-demo-1.4", ["--modes", "medication,diagnosis"], ["--hospitals", "3"]),
}
SECTIONS = ("phenotypes", "models", "prevalence", "pooled", "convergence", "left", "methods")


def tripheno(*words):
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == 0, result.output


@pytest.fixture(scope="module", params=SOURCES)
def run(request, tmp_path_factory):
    """A small run on the source, with sepsis as a guide; and the labels its tables have."""
    name, options, dealt = SOURCES[request.param]
    home = tmp_path_factory.mktemp(request.param)
    tripheno("ingest", request.param, shared_data(name), "--out", home / "site", *options)
    sites = sorted({path.parent for path in (home / "site").rglob("events.parquet")})
    (home / "guide.toml").write_text('["Sepsis"]\ndiagnosis = ["ICD9CM:038.9"]\n')
    tripheno(
        "simulate", *sites, "--out", home / "run", *dealt, "--rank", 4, "--max-iter", 8,
        "--tol", "1e-3", "--starts", 2, "--guide", home / "guide.toml",
    )  # fmt: skip
    labels = {}
    for site in sites:
        events = pq.read_table(site / "events.parquet", columns=["code", "label"])
        pairs = zip(events["code"].to_pylist(), events["label"].to_pylist(), strict=True)
        labels |= {code: label for code, label in pairs if label}
    return home / "run", labels


def test_no_code_stands_bare_where_a_label_exists(run):
    folder, labels = run
    shown = [
        code
        for phenotype in json.loads((folder / "phenotypes.json").read_text())
        for codes in phenotype["codes"].values()
        for code in codes
    ]
    bare = [code["code"] for code in shown if code["name"] == code["code"]]
    assert [code for code in bare if labels.get(code, code) != code] == []
    assert [code for code in bare if re.search(r"\d{3}", code)] == []  # words, not numbers


def test_every_section_is_filled(run):
    folder, _ = run
    page = (folder / "report.html").read_text()
    for name in SECTIONS:
        assert f'<h2 id="{name}"' in page
    assert len(page.encode()) < 2_000_000
    assert not re.search(r"\bNone\b|\bnan\b|undefined", page)
    for words in (
        "of the fit",
        "resampled patients",
        "rests on about",
        "specific",
        "have none of them",
    ):
        assert words in page


def test_the_guided_phenotype_bears_its_name_or_the_page_says_why_not(run):
    folder, _ = run
    guided = [
        p for p in json.loads((folder / "phenotypes.json").read_text()) if p["guided"]
    ]  # fmt: skip
    assert [one["guided"]["name"] for one in guided] == ["Sepsis"]
    followed = guided[0]["guided"]["held"] >= 0.2
    named = followed and guided[0]["grade"] != "unstable"
    assert (guided[0]["title"] == "Sepsis") == named
    page = (folder / "report.html").read_text()
    assert ("Guided from 1 code named" if followed else "the data did not follow") in page


def test_nothing_is_claimed_of_what_is_unstable_or_rests_on_too_few(run):
    folder, _ = run
    page = (folder / "report.html").read_text()
    cards = dict(re.findall(r'<article id="phenotype-(\d+)"(.*?)</article>', page, re.DOTALL))
    for phenotype in json.loads((folder / "phenotypes.json").read_text()):
        card = cards[str(phenotype["phenotype"])]
        if phenotype["grade"] == "unstable":
            assert "badge kind-" not in card
            assert "Not a finding" in card
            assert phenotype["title"].startswith("unstable: ")
        if not phenotype["named"]:
            assert '<table class="codes">' not in card
            assert "badge kind-" not in card
    grades = {p["grade"] for p in json.loads((folder / "phenotypes.json").read_text())}
    first = re.search(r'<div class="summary"><p>(.*?)</p>', page)[1]
    assert ("stable" in grades) or first.startswith(("No finding", "No phenotype is stable"))
