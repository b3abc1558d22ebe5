"""What a machine must have to take part for months: room, tasks, open files, a clock kept."""

from __future__ import annotations

import ctypes
import os
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path

from tripheno.errors import SettingsError

LEAST_FREE = 1 << 30
LEAST_TASKS = 256  # an engine's threads, a job's, ours and the solver's
LEAST_FILES = 256
TIME_ERROR = 5  # what adjtimex(2) answers while nobody keeps the clock
SIZE_OF_TIMEX = 512  # more than any system's; asked with mode 0 it only reads


def check_room(folders: Iterable[Path]) -> str:
    """Refuse a file system with less than a gigabyte; each is looked at once."""
    seen: dict[int, str] = {}
    for folder in folders:
        there = next(one for one in (folder, *folder.parents) if one.exists())
        free = shutil.disk_usage(there).free
        if free < LEAST_FREE:
            raise SettingsError(
                f"{free / LEAST_FREE:.1f} GB are free", where=str(there),
                fix="make room on this disk",
            )  # fmt: skip
        seen[there.stat().st_dev] = f"{free / LEAST_FREE:.0f} GB free at {there}"
    return "; ".join(seen.values())


def check_tasks(cgroups: Path = Path("/sys/fs/cgroup")) -> str:
    """Refuse too few threads and processes, by the service's own limit or the account's."""
    limits = {"TasksMax of the service": _tasks_of_service(cgroups)}
    files: int | None = None
    if sys.platform != "win32":
        import resource  # noqa: PLC0415

        limits["ulimit -u"] = _finite(resource.getrlimit(resource.RLIMIT_NPROC)[0])
        files = _finite(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    for name, limit in limits.items():
        if limit is not None and limit < LEAST_TASKS:
            raise SettingsError(
                f"only {limit} tasks are allowed", where=name,
                why="an engine that gets no thread ends without a message",
                fix=f"allow at least {LEAST_TASKS}",
            )  # fmt: skip
    if files is not None and files < LEAST_FILES:
        raise SettingsError(
            f"only {files} open files are allowed", where="ulimit -n",
            fix=f"allow at least {LEAST_FILES}",
        )  # fmt: skip
    least = min((limit for limit in limits.values() if limit is not None), default=None)
    return "no limit" if least is None else f"at most {least:,}"


def _finite(limit: int) -> int | None:
    return limit if 0 <= limit < 1 << 31 else None


def _tasks_of_service(cgroups: Path) -> int | None:
    """The limit of the control group that this process is in; None where there is none."""
    try:
        own = Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()
        name = next(line.partition("::")[2] for line in own if line.startswith("0::"))
        text = (cgroups / name.lstrip("/") / "pids.max").read_text(encoding="utf-8").strip()
        return int(text)
    except (OSError, StopIteration, ValueError):
        return None


def clock_is_kept() -> bool | None:
    """Whether the kernel says that somebody keeps its clock; None where it cannot be asked."""
    if not sys.platform.startswith("linux") or os.name != "posix":
        return None
    try:
        state = ctypes.CDLL(None, use_errno=True).adjtimex(
            ctypes.create_string_buffer(SIZE_OF_TIMEX)
        )
    except (OSError, AttributeError):
        return None
    return None if state < 0 else state != TIME_ERROR
