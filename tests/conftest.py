"""What all tests share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tripheno.testing import requirements

pytest.register_assert_rewrite(
    "tripheno.testing.channel_contract",
    "tripheno.testing.communicator_contract",
)


@pytest.fixture
def shared_data() -> Callable[[str], Path]:
    """``shared_data("tensors/x.tns.gz")``: a file of the sibling folder, or a reasoned skip."""
    return requirements.shared_data
