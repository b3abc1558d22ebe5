"""Run a module as a process that ends when the one that started it ends, however that ended.

A supervisor that is killed cannot tidy up, and the engine's processes would stay and turn in
circles. So each of them watches its parent: the agent our command, the job's process the agent.
"""

from __future__ import annotations

import os
import runpy
import select
import signal
import sys
import time
from threading import Thread

SECONDS_BETWEEN_LOOKS = 1.0  # where the operating system cannot tell at once


def words_of_child(parent: int, module: str) -> list[str]:
    """The beginning of a command line that runs a module as a child of this parent.

    ``-P``: what lies in the folder where it is started cannot pass for a module.
    """
    return [sys.executable, "-P", "-m", "tripheno.federation.child", str(parent), module]


def end_with(parent: int) -> None:
    """From now on this process is killed when its parent has ended; at once if it has already."""
    watched = _process_handle(parent)
    if os.getppid() != parent:  # it ended before we looked, and its number may be another's now
        sys.exit(1)
    Thread(target=_follow, args=(parent, watched), name="tripheno-parent", daemon=True).start()


def _process_handle(pid: int) -> int | None:
    """What can be waited on until a process ends; None where there is no such thing."""
    opened = getattr(os, "pidfd_open", None)
    try:
        return None if opened is None else int(opened(pid))
    except OSError:
        return None


def _follow(parent: int, watched: int | None) -> None:
    if watched is not None:
        waiting = select.poll()
        waiting.register(watched, select.POLLIN)
        waiting.poll()
    while os.getppid() == parent:
        time.sleep(SECONDS_BETWEEN_LOOKS)
    os.kill(os.getpid(), signal.SIGKILL)  # a tidy end may wait for a parent that is gone


def main() -> None:
    """``python -m tripheno.federation.child PARENT MODULE WORDS…``."""
    end_with(int(sys.argv[1]))
    module = sys.argv[2]
    sys.argv = sys.argv[2:]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
