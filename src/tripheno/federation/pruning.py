"""What an engine leaves behind, kept for a month: folders of jobs that are over, and its output.

What belongs to a study (checkpoints, audit logs, results) is never touched here.
"""

from __future__ import annotations

import shutil
import time
from contextlib import suppress
from pathlib import Path
from uuid import UUID

DAYS_TO_KEEP = 30
MOST_BYTES = 10_000_000  # of a file that only grows
SECONDS_A_DAY = 86_400.0


def prune(workspace: Path, days: float = DAYS_TO_KEEP) -> int:
    """Remove the folders of old jobs from an engine's workspace and its store; how many.

    The last one stays however old it is: it may be at work.
    """
    store = workspace.parents[3] / "store" / workspace.name
    oldest = time.time() - days * SECONDS_A_DAY
    gone = 0
    for place in (workspace, store / "jobs-storage"):
        with suppress(OSError):
            ages = {_touched(one): one for one in place.glob("*") if _is_of_a_job(one)}
            for touched in sorted(ages)[:-1]:
                if touched < oldest:
                    shutil.rmtree(ages[touched])
                    gone += 1
    return gone


def _is_of_a_job(folder: Path) -> bool:
    with suppress(ValueError):
        return folder.is_dir() and str(UUID(folder.name)) == folder.name
    return False


def _touched(folder: Path) -> float:
    """When anything in a folder was last written."""
    return max(path.lstat().st_mtime for path in (folder, *folder.rglob("*")))


def keep_short(path: Path, most: int = MOST_BYTES) -> None:
    """Put a file that grew long aside, in place of the one that was put aside before."""
    with suppress(OSError):
        if path.stat().st_size > most:
            path.replace(path.with_name(path.name + ".1"))
