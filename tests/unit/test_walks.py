"""The two walks of the architecture page pass the files that a trace of a study passes."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "architecture.md"
WALKS = ("prescription", "masked contribution")
NOT_OURS_TO_SEE = {"federation/job.py"}  # it runs in the engine's own process


def walk(name):
    """The files a section names, in full, and the number in its title."""
    text = PAGE.read_text(encoding="utf-8").partition(f"### One {name}: ")[2]
    number, _, rest = text.partition(" files")
    files, folder = set(), ""
    for place in re.findall(r"`([a-z_./]+\.py)`", re.split(r"\n##", rest)[0]):
        folder = place.rpartition("/")[0] if "/" in place else folder
        files.add(f"{folder}/{place.rpartition('/')[2]}".removeprefix("./"))
    return files, int(number)


@pytest.mark.parametrize("name", WALKS)
def test_a_walk_names_as_many_files_as_its_title_says_and_all_are_there(name):
    files, number = walk(name)
    assert len(files) == number
    assert [one for one in files if not (PAGE.parents[1] / "src/tripheno" / one).is_file()] == []


def test_every_place_for_something_new_is_there_and_has_what_the_page_says():
    table = PAGE.read_text(encoding="utf-8").partition("## Where to put something new\n")[2]
    table, source = table.partition("\nWhy things are")[0], PAGE.parents[1] / "src" / "tripheno"
    roots = (source, PAGE.parents[1])
    named = re.findall(r"`([\w/]+/|[\w/]+\.py)`", table)
    assert len(named) > 30
    assert [one for one in named if not any((root / one).exists() for root in roots)] == []
    text = "".join(path.read_text(encoding="utf-8") for path in source.rglob("*.py"))
    words = re.findall(r"`@?(\w+)`", table)
    assert "min_cell_count" in words
    assert [one for one in words if not re.search(rf"\b{one}\b", text)] == []


@pytest.mark.verify
def test_the_walks_are_those_of_a_traced_study(tmp_path):
    trace = importlib.import_module("tools.walks").traced(tmp_path)
    assert walk("prescription")[0] <= set(trace.whole)
    assert walk("masked contribution")[0] == set(trace.contribution) | NOT_OURS_TO_SEE
