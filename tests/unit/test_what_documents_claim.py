"""What documents may not say: nothing here makes data anonymous, or keeps anybody's law."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
WRITTEN = [
    PROJECT / "README.md",
    PROJECT / "CHANGELOG.md",
    *sorted((PROJECT / "docs").rglob("*.md")),
    *sorted((PROJECT / "src").rglob("*.html")),
    *sorted((PROJECT / "src" / "tripheno").rglob("*.py")),
]
NEVER = re.compile(
    r"anonymous|anonymi[sz]|cannot leak|HIPAA|GDPR|fully private|privacy[- ]preserving|"
    r"guarantees? (of )?privacy|membership is protected",
    re.IGNORECASE,
)


@pytest.mark.parametrize("path", WRITTEN, ids=lambda path: str(path.relative_to(PROJECT)))
def test_no_document_claims_what_the_protocol_cannot_keep(path):
    found = [
        f"line {number}: {line.strip()[:80]}"
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if NEVER.search(line)
    ]
    assert not found


@pytest.mark.parametrize(("page", "least"), [("sums.md", 15), ("privacy.md", 5)])
def test_every_test_that_a_page_about_privacy_names_is_there(page, least):
    page = (PROJECT / "docs" / page).read_text(encoding="utf-8")
    tests = "".join(path.read_text() for path in (PROJECT / "tests").rglob("test_*.py"))
    named = re.findall(r"`(test_\w+)`", page)
    assert len(named) > least
    assert [name for name in named if f"def {name}(" not in tests] == []


def test_the_page_for_an_officer_says_what_is_not_protected():
    page = (PROJECT / "docs" / "privacy.md").read_text(encoding="utf-8")
    needed = (
        "What is not protected", "no differential privacy", "At least three hospitals",
        "Differences of sums", "is not detected", "nothing here protects membership",
    )  # fmt: skip
    for words in needed:
        assert words in page
