"""The glossary holds: what the project called things earlier is found nowhere."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
CODE = [
    path
    for folder in ("src/tripheno", "tools", "tests/kit", "benchmarks")
    for path in sorted((ROOT / folder).rglob("*.py"))
]
READ = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "src/tripheno").rglob("*.html")),
    *CODE,
]
MEANT = {  # names with such a part that mean just what they say
    "perf_counter", "Counter",  # the standard library's
    "minutes", "_MINUTES_PER_DAY", "_moment",  # of a clock, and a point in time in records
    "moment", "moments",
}  # fmt: skip


def earlier():
    """The first column of the glossary: parts of names, and phrases."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").partition("<!-- glossary -->")[2]
    lines = text.partition("<!-- /glossary -->")[0].splitlines()
    column = [line.split("|")[1] for line in lines if line.startswith("| ") and "ours)" not in line]
    names = {name for cell in column for name in re.findall(r"`(\w+)`", cell)}
    return names, {words for cell in column for words in re.findall(r'"([^"]+)"', cell)}


def names_in(path):
    """Every name that a file gives or uses."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        for part in ("id", "arg", "attr", "name"):
            if isinstance(name := getattr(node, part, None), str):
                yield name


def parts_of(name):
    """A name's words: of `_ToldHandle`, told and handle."""
    return {part.lower() for part in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)}


def test_no_name_has_a_part_that_the_glossary_gave_up():
    given_up, _ = earlier()
    assert len(given_up) > 12
    words = given_up | {f"{word}s" for word in given_up}
    found = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in CODE
        for name in sorted({path.stem, *names_in(path)} - MEANT)
        if parts_of(name) & words
    ]
    assert found == []


def test_no_page_and_no_message_says_a_phrase_that_the_glossary_gave_up():
    _, phrases = earlier()
    assert len(phrases) > 3
    found = []
    for path in READ:
        text = " ".join(path.read_text(encoding="utf-8").lower().split())
        found += [f"{path.relative_to(ROOT)}: {words}" for words in phrases if words in text]
    assert found == []
