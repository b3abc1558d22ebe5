"""Repeats shared out among processes: each keeps its rows in a folder of its own, one gathers them.

A share is the same command with the same settings, so it can be interrupted and goes on like any
other; whatever it has measured is found again in its folder.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from tripheno.errors import RunFailed
from tripheno.evaluation.paper.ledger import Ledger
from tripheno.evaluation.paper.plan import PaperSettings
from tripheno.evaluation.paper.running import GRIDS, ITERATIONS
from tripheno.federation.child import words_of_child

Say = Callable[[str], None]
FOLDER = "shares"
SMALL = 0.05  # up to this scale the kernels leave a second core idle
THREADS = ("NUMBA_NUM_THREADS", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS")


def jobs_for(settings: PaperSettings, asked: int) -> int:
    """How many processes: as asked; else one, whose seconds nothing disturbs, but where small."""
    cores = os.cpu_count() or 1
    wanted = asked or (cores if settings.scale <= SMALL else 1)
    return max(1, min(wanted, settings.repeats))


def run_shares(folder: Path, words: Sequence[str], jobs: int, say: Say) -> None:
    """Run the command once for every share of the repeats, all at the same time.

    However this ends, what the shares have measured is in their folders, to be gathered.
    """
    each = str(max(1, (os.cpu_count() or 1) // jobs))
    environment = {**os.environ, **dict.fromkeys(THREADS, each)}
    read, write = os.pipe()
    with ExitStack() as stack, open(read, encoding="utf-8", errors="replace") as lines:
        started = []
        try:
            for number in range(jobs):
                place = folder / FOLDER / str(number)
                own = ["--share", str(number), str(jobs), "--out", str(place)]
                child = subprocess.Popen(  # noqa: S603
                    [*words_of_child(os.getpid(), "tripheno"), *words, *own],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=write,
                    env=environment,
                )
                stack.callback(_ended, child)
                started.append(child)
        finally:
            os.close(write)
        last = ""
        for line in lines:
            last = line.rstrip()
            say(last)
        failed = [number for number, child in enumerate(started) if child.wait() != 0]
    if failed:
        raise RunFailed(
            f"{len(failed)} of {jobs} processes that share the repeats did not finish",
            why=last,
            fix="the same command goes on where they ended; --jobs 1 uses one process",
        )


def _ended(child: subprocess.Popen[bytes]) -> None:
    if child.poll() is None:
        child.terminate()
        child.wait()


def deal(folder: Path, settings: PaperSettings, jobs: int) -> None:
    """Tell every share which of its rows are there already."""
    for number in range(jobs):
        repeats = replace(settings, share=(number, jobs)).own_repeats
        _carry(folder, folder / FOLDER / str(number), settings, repeats)


def gather(folder: Path, settings: PaperSettings) -> None:
    """Take over what the shares in a folder have measured, and remove them."""
    for share in sorted((folder / FOLDER).glob("*")):
        _carry(share, folder, settings, settings.own_repeats)
        shutil.rmtree(share)
    if (folder / FOLDER).is_dir():
        (folder / FOLDER).rmdir()


def _carry(source: Path, target: Path, settings: PaperSettings, repeats: range) -> None:
    """Copy what is known of some repeats from one folder of a run to another."""
    for name in (*GRIDS, "phenotypes"):
        if (source / f"{name}.csv").is_file():
            known = Ledger(source, name, settings.to_dict())
            Ledger(target, name, settings.to_dict()).take(known, repeats)
    patterns = [f"central/*-{repeat}.npz" for repeat in repeats]
    patterns += [f"phenotypes-{repeat}.json" for repeat in repeats]
    for path in (found for pattern in patterns for found in source.glob(pattern)):
        _copy(path, target / path.relative_to(source))
    if 0 in repeats and (source / ITERATIONS).is_file():
        _copy(source / ITERATIONS, target / ITERATIONS)


def _copy(path: Path, to: Path) -> None:
    if not to.exists():
        to.parent.mkdir(parents=True, exist_ok=True)
        part = to.with_name(to.name + ".part")
        shutil.copyfile(path, part)
        part.replace(to)
