"""What a test needs of the machine it runs on.

A test that lacks a tool or the shared data is skipped with its reason; where everything must be
there (``TRIPHENO_REQUIRE_ALL=1``), the same lack is a failure.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]


def require(present: object, reason: str) -> None:
    """Go on when the thing is there; else skip, or fail where nothing may be skipped."""
    if present:
        return
    if os.environ.get("TRIPHENO_REQUIRE_ALL") == "1":
        pytest.fail(f"needed here: {reason}")
    pytest.skip(reason)


def shared_data(name: str) -> Path:
    """A folder of the open EHR data that lies beside the project; it is never copied into it."""
    given = os.environ.get("TRIPHENO_SHARED_DATA")
    root = Path(given) if given else PROJECT.parent / "shared" / "data"
    require((root / name).exists(), f"the shared data '{name}' is not beside the project")
    return root / name


def tool(name: str, *places: str) -> Path:
    """A program on the path, or in one of the folders (with wildcards) where it may be."""
    found = shutil.which(name)
    candidates = [Path(found)] if found else []
    for place in places:
        candidates += sorted(Path("/").glob(f"{place.lstrip('/')}/{name}"), reverse=True)
    require(candidates, f"the program '{name}' is not installed")
    return candidates[0]
