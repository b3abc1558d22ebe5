"""Where compiled loops are kept between two starts of the program.

The compiler keeps them beside the source or in the user's home, and refuses to work where it may
write to neither: a service whose account has no home, on an installation that root owns. Such a
process gets a folder of its own, which goes with it; `NUMBA_CACHE_DIR` names a lasting one.
"""

from __future__ import annotations

import atexit
import shutil
import tempfile

from numba import config, njit


def _probe() -> None:
    """Nothing: the compiler is asked for a place to keep it."""


def find_a_place() -> None:
    """See to it that the compiler has a folder to write to."""
    try:
        njit(cache=True)(_probe)
    except RuntimeError:
        folder = tempfile.mkdtemp(prefix="tripheno-compiled-")  # mode 0700: it is run as it lies
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        config.CACHE_DIR = folder  # type: ignore[attr-defined]
