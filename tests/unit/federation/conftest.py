"""A small study around a table, for every test that asks for one."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from kit.small_study import Table, seated


@pytest.fixture
def table(tmp_path: Path) -> Callable[..., Table]:
    return partial(seated, tmp_path)
