"""What a release says of itself, in one voice."""

from __future__ import annotations

import json
import re

import pytest
from tools.hashes import HASHED, pinned, spelt
from tools.metadata import written
from tools.sbom import PROJECT, ROOT, SBOM, TABLE, bill, table

import tripheno

PUBLIC = ["README.md", "SECURITY.md", "CODE_OF_CONDUCT.md", "CONTRIBUTING.md", "paper.md"]


@pytest.mark.parametrize("name", list(written()))
def test_a_file_that_repeats_the_project_is_what_the_command_writes(name):
    assert (ROOT / name).read_text(encoding="utf-8") == written()[name]


def test_addresses_are_written_down_in_one_place():
    home = PROJECT["urls"]["Homepage"]
    assert all(url.startswith(home) for url in PROJECT["urls"].values())
    generated = {*written(), "pyproject.toml"}
    others = [name for name in PUBLIC if name not in generated] + [
        str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md")
    ]
    assert [name for name in others if home in (ROOT / name).read_text(encoding="utf-8")] == []


def test_the_version_is_the_same_everywhere():
    head = re.search(r"^## (\S+) \(", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)[1]
    assert head == tripheno.__version__
    assert json.loads((ROOT / "codemeta.json").read_text())["version"] == tripheno.__version__


def test_the_bill_of_materials_is_that_of_what_is_installed_and_pinned():
    document = json.loads(SBOM.read_text(encoding="utf-8"))
    assert document == bill()
    assert TABLE.read_text(encoding="utf-8") == table(document)
    pins = {spelt(name): version for name, version in pinned()}
    parts = document["components"]
    assert len(parts) > 50
    assert [one["name"] for one in parts if pins.get(one["name"]) != one["version"]] == []
    assert "unknown" not in TABLE.read_text(encoding="utf-8")


def test_every_pinned_version_has_hashes():
    text = HASHED.read_text(encoding="utf-8")
    blocks = re.findall(r"^(\S+)==(\S+) ((?:\\\n    --hash=sha256:[0-9a-f]{64} ?)+)$", text, re.M)
    assert [(name, version) for name, version, _ in blocks] == pinned()
