"""What all tests share."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

from kit import requirements

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # as the commands do; before numpy loads

settings.register_profile("untimed", deadline=None)  # a busy machine is no fault of the code
settings.load_profile("untimed")

pytest.register_assert_rewrite(
    "tripheno.testing.channel_contract",
    "tripheno.testing.communicator_contract",
)


@pytest.fixture
def shared_data() -> Callable[[str], Path]:
    """``shared_data("tensors/x.tns.gz")``: a file of the sibling folder, or a reasoned skip."""
    return requirements.shared_data
