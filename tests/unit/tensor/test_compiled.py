"""Where compiled loops are kept when the account may write nowhere."""

from __future__ import annotations

import os
import subprocess
import sys

PROGRAM = """
from pathlib import Path
from numba import config
import tripheno.tensor
from tripheno.tensor.kernels import bare_loop
place = Path(config.CACHE_DIR)
assert place.is_dir() and place.stat().st_mode & 0o777 == 0o700
print(place)
"""


def test_a_service_without_a_home_gets_a_folder_of_its_own_that_goes_with_it(tmp_path):
    env = {**os.environ, "TMPDIR": str(tmp_path)}
    env |= {"NUMBA_CACHE_LOCATOR_CLASSES": "UserProvidedCacheLocator"}  # as if none could write
    env.pop("NUMBA_CACHE_DIR", None)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=env, check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(str(tmp_path))
    assert list(tmp_path.iterdir()) == []
