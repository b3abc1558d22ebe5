"""Measurements that are not tests: ``make bench``. They share the tests' kit."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))  # for `kit`
