"""Every command and every example of README and documentation, run as a reader would."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
PAGES = [PROJECT / "README.md", *sorted((PROJECT / "docs").rglob("*.md"))]
SLOW = {"docs/mathematics.md"}  # a whole tensor of the paper's UCSD size: make verify
FOLLOWED = {  # by machines and accounts of their own
    "docs/howto/deploy.md",  # test_guide.py
    "docs/howto/operate.md",  # test_clean_accounts.py
}
BLOCK = re.compile(r"^```(sh|python)\n(.*?)^```", flags=re.MULTILINE | re.DOTALL)
BLOCKS = [
    (page.relative_to(PROJECT).as_posix(), kind, text)
    for page in PAGES
    for kind, text in BLOCK.findall(page.read_text(encoding="utf-8"))
]
MADE = [block for block in BLOCKS if block[1] == "sh" and block[2].startswith("make ")]
RUN = [
    pytest.param(*block, marks=pytest.mark.verify if block[0] in SLOW else ())
    for block in BLOCKS
    if block not in MADE and block[0] not in FOLLOWED
]


def test_the_readme_gives_the_two_commands_and_more_to_run():
    words = " ".join(text for page, _, text in MADE if page == "README.md")
    assert "make demo" in words
    assert "make test" in words
    assert len([page for page, _, _ in BLOCKS if page == "README.md"]) >= 4


def test_the_tutorial_has_something_to_run():
    assert len([page for page, _, _ in BLOCKS if page == "docs/tutorial.md"]) >= 5


@pytest.mark.parametrize(("page", "kind", "text"), MADE)
def test_make_knows_every_target_that_is_named(page, kind, text):
    for line in text.splitlines():
        target = line.split("#")[0].split()
        done = subprocess.run(
            [*target, "--dry-run"], cwd=PROJECT, check=False, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def work_folders(tmp_path_factory):
    """One folder per page: a later block may use what an earlier one made."""
    found: dict[str, Path] = {}

    def work_folder(page: str) -> Path:
        if page not in found:
            found[page] = tmp_path_factory.mktemp("desk")
        return found[page]

    return work_folder


@pytest.mark.parametrize(("page", "kind", "text"), RUN)
def test_every_block_runs_as_it_stands(page, kind, text, work_folders):
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    program = (
        ["bash", "-euo", "pipefail", "-c", text] if kind == "sh" else [sys.executable, "-c", text]
    )
    done = subprocess.run(
        program, cwd=work_folders(page), env={**os.environ, "PATH": path}, check=False,
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
