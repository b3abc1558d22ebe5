"""The decisions: an index that agrees with the pages, and no page that names what is gone."""

from __future__ import annotations

import re

import pytest
from tools.decisions import FOLDER, INDEX, index

ROOT = FOLDER.parents[1]
STANDING = [
    path for path in sorted(FOLDER.glob("0*.md")) if "**Status.** Replaced" not in path.read_text()
]


def test_the_index_is_that_of_the_pages():
    assert INDEX.read_text(encoding="utf-8") == index()


@pytest.mark.parametrize("path", STANDING, ids=lambda path: path.stem)
def test_a_standing_decision_names_only_files_and_tests_that_are_there(path):
    text = path.read_text(encoding="utf-8")
    places = (ROOT, ROOT / "src/tripheno")
    files = re.findall(r"`((?:[\w-]+/)+[\w-]+\.(?:py|md|toml|sql))`", text)
    assert [name for name in files if not any((at / name).exists() for at in places)] == []
    tests = "".join(one.read_text(encoding="utf-8") for one in (ROOT / "tests").rglob("test_*.py"))
    assert [name for name in re.findall(r"`(test_\w+)`", text) if f"def {name}(" not in tests] == []
