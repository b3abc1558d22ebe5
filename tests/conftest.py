"""What all tests share."""

from __future__ import annotations

import os
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
