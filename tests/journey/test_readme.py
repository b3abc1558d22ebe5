"""Every command and every example of the README, run as a reader would."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

README = (Path(__file__).resolve().parents[2] / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(sh|python)\n(.*?)^```", README, flags=re.MULTILINE | re.DOTALL)
MADE = [text for kind, text in BLOCKS if kind == "sh" and text.startswith("make ")]
RUN = [block for block in BLOCKS if block[1] not in MADE]


def test_the_readme_gives_the_two_commands_and_more_to_run():
    words = " ".join(MADE)
    assert "make demo" in words
    assert "make test" in words
    assert len(RUN) >= 2


@pytest.mark.parametrize("text", MADE)
def test_make_knows_every_target_the_readme_names(text):
    for line in text.splitlines():
        target = line.split("#")[0].split()
        done = subprocess.run(
            [*target, "--dry-run"], cwd=Path(__file__).resolve().parents[2], check=False,
            capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    """One folder for all blocks: a later one may use what an earlier one made."""
    return tmp_path_factory.mktemp("readme")


@pytest.mark.parametrize(("kind", "text"), RUN)
def test_every_block_runs_as_it_stands(kind, text, desk):
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    program = (
        ["bash", "-euo", "pipefail", "-c", text] if kind == "sh" else [sys.executable, "-c", text]
    )
    done = subprocess.run(
        program, cwd=desk, env={**os.environ, "PATH": path}, check=False, capture_output=True,
        text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
