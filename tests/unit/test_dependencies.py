"""What an install brings: the core stays light, and every library has its reason written down."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

from tripheno.testing.small_tables import write_tables

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
HEAVY = {"scikit-learn", "joblib", "pandas", "lxml", "xlsxwriter", "python-pptx", "openpyxl",
         "anndata", "pypdf", "nvflare"}  # fmt: skip


def named(line):
    return re.match(r"[\w.-]+", line)[0].lower().replace("_", "-")


def brought_by(names):
    """These libraries and all that they ask for when nobody asks for an extra."""
    found, left = set(), list(names)
    while left:
        name = left.pop()
        if name in found:
            continue
        found.add(name)
        try:
            lines = requires(name) or []
        except PackageNotFoundError:  # of another system or version of Python
            continue
        left += [named(line) for line in lines if "extra ==" not in line]
    return found


def test_the_core_install_brings_no_heavy_library():
    core = brought_by(map(named, PROJECT["dependencies"]))
    assert {"numpy", "numba", "llvmlite"} <= core
    assert not core & HEAVY


def test_every_dependency_has_its_reason():
    text = (ROOT / "docs/decisions/0006-dependencies.md").read_text(encoding="utf-8").lower()
    extras = [line for lines in PROJECT["optional-dependencies"].values() for line in lines]
    asked = {named(line) for line in [*PROJECT["dependencies"], *extras]} - {"tripheno"}
    known = {"axe-playwright-python": "axe-core"}
    assert not [name for name in sorted(asked) if known.get(name, name) not in text]


def test_a_machine_that_only_ingests_needs_what_its_page_says(tmp_path):
    page = (ROOT / "docs/howto/ingest.md").read_text(encoding="utf-8")
    kept = set(re.search(r"^pip install (numpy .*)$", page, re.MULTILINE)[1].split())
    left = {named(line) for line in PROJECT["dependencies"]} - kept
    assert {"vl-convert-python", "altair", "cryptography", "numba", "scipy"} <= left
    tables = write_tables(
        tmp_path / "mimic",
        PRESCRIPTIONS="subject_id,hadm_id,startdate,enddate,drug\n1,10,2150-01-01,,Aspirin",
        DIAGNOSES_ICD="row_id,subject_id,hadm_id,seq_num,icd9_code\n1,1,10,1,4019",
    )
    program = (
        "import sys, importlib.metadata as metadata\n"
        f"left, known = {sorted(left | {'vl_convert'})}, metadata.distribution\n"
        "sys.modules.update(dict.fromkeys(left))\n"
        "metadata.distribution = lambda name: known('none' if name in left else name)\n"
        "from tripheno.cli.main import main; main()"
    )

    def on_that_machine(*words):
        return subprocess.run(
            [sys.executable, "-c", program, *words], check=False, capture_output=True, text=True
        )

    site = tmp_path / "site"
    done = on_that_machine("ingest", "mimic", str(tables), "--out", str(site))
    assert done.returncode == 0, done.stderr
    assert (site / "events.parquet").is_file()
    refused = on_that_machine("simulate", str(site), "--out", str(tmp_path / "run"))
    assert (refused.returncode, refused.stderr[:10]) == (2, "TRIP-E232 ")
    assert "pip install tripheno" in refused.stderr
