"""What all tests share."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.register_assert_rewrite(
    "tripheno.testing.aligner_contract",
    "tripheno.testing.channel_contract",
    "tripheno.testing.sums_contract",
)

PROJECT = Path(__file__).resolve().parents[1]


@pytest.fixture
def shared_data() -> Callable[[str], Path]:
    """``shared_data("tensors/x.tns.gz")``: a file of the sibling folder, or a reasoned skip.

    The folder is ``../shared/data`` beside the project, or where TRIPHENO_SHARED_DATA says.
    """
    folder = Path(os.environ.get("TRIPHENO_SHARED_DATA", PROJECT.parent / "shared" / "data"))

    def find(name: str) -> Path:
        if not (folder / name).exists():
            pytest.skip(f"no {name} in {folder}: this test needs the shared data")
        return folder / name

    return find


@pytest.fixture
def chromium(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """``chromium("--dump-dom", address)``: a fresh headless browser, or a reasoned skip."""
    program = shutil.which("chromium")
    if program is None:
        if os.environ.get("TRIPHENO_REQUIRE_ALL") == "1":
            pytest.fail("no chromium on this machine: .ci/run installs it")
        pytest.skip("no chromium on this machine: pages are looked at in a real browser")
    quiet = "no-sandbox disable-gpu no-first-run disable-background-networking hide-scrollbars"
    quiet += " disable-component-update disable-sync headless enable-logging=stderr"
    words = [program, *(f"--{word}" for word in quiet.split()), f"--user-data-dir={tmp_path}/user"]

    def run(*more: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [*words, *more], capture_output=True, text=True, timeout=90, check=False
        )
        assert done.returncode == 0, done.stderr
        assert "CONSOLE" not in done.stderr, done.stderr
        return done

    return run
