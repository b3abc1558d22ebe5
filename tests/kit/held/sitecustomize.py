"""On the path of `join`: the hospital stops before a step of the study while a file says so.

A test that waits for a step by looking at a run from outside may look too late: the study is over.
Here the hospital itself stops at the step, and all others wait for it, until the file is gone. The
interpreter runs this module by its name, before the command.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from threading import get_ident

SECONDS_BETWEEN_LOOKS = 0.02


def hold_before_steps(folder: Path) -> None:
    """Put a wait in front of what a hospital does at every step."""
    from tripheno.cli.live import LiveHospital

    goes_on = LiveHospital.step

    def step(self: LiveHospital, name: str) -> None:
        goes_on(self, name)
        while held_at(folder, name):
            new = folder / f"held-{get_ident()}"  # a thread of an attempt before may stand here too
            new.write_text(name, encoding="utf-8")
            new.replace(folder / "held")
            time.sleep(SECONDS_BETWEEN_LOOKS)

    LiveHospital.step = step  # type: ignore[method-assign]


def held_at(folder: Path, name: str) -> bool:
    """Whether the file names this step, or the beginning of it."""
    try:
        return name.startswith((folder / "hold").read_text(encoding="utf-8"))
    except OSError:
        return False


if "join" in sys.orig_argv and "HOLD" in os.environ:
    hold_before_steps(Path(os.environ["HOLD"]))
