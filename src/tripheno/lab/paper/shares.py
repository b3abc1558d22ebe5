"""Repeats shared out among processes: each keeps its rows in a folder of its own, one gathers them.

A share is the same command with the same settings, so it can be interrupted and goes on like any
other; whatever it has measured is found again in its folder.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from tripheno.errors import OutputExists, RunFailed
from tripheno.federation.child import words_of_child
from tripheno.files import held
from tripheno.lab.paper.ledger import RowFile
from tripheno.lab.paper.plan import PaperSettings
from tripheno.lab.paper.running import GRIDS, ITERATIONS
from tripheno.tensor.threads import limited_to

Say = Callable[[str], None]
FOLDER = ".tripheno-shares"
DONE = ".gathered"  # how the name of a share ends that may be removed
EVERY = range(sys.maxsize)
SMALL = 0.05  # up to this scale the kernels leave a second core idle
THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS")


def jobs_for(settings: PaperSettings, asked: int) -> int:
    """How many processes: as asked; else one, whose seconds nothing disturbs, but where small."""
    cores = os.cpu_count() or 1
    wanted = asked or (cores if settings.scale <= SMALL else 1)
    return max(1, min(wanted, settings.repeats))


def cores_for(jobs: int) -> int:
    """How many cores one of so many processes has to itself."""
    return max(1, (os.cpu_count() or 1) // jobs)


@contextmanager
def at_work(folder: Path, settings: PaperSettings) -> Iterator[None]:
    """Have a folder to oneself; a share of the repeats takes no more than its share of cores."""
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        try:
            stack.enter_context(held(folder / ".lock"))
        except BlockingIOError:
            raise OutputExists(
                "another process is measuring in this folder", where=str(folder),
                fix="let it finish or stop it, or name another folder with --out",
            ) from None  # fmt: skip
        stack.enter_context(limited_to(cores_for(settings.share[1])))
        yield


def run_shares(folder: Path, words: Sequence[str], jobs: int, say: Say) -> None:
    """Run the command once for every share of the repeats, all at the same time.

    However this ends, what the shares have measured is in their folders, to be gathered.
    """
    environment = {**os.environ, **dict.fromkeys(THREADS, str(cores_for(jobs)))}
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
        for line in lines:
            say(line.rstrip())
        failed = [number for number, child in enumerate(started) if child.wait() != 0]
    if failed:
        raise RunFailed(
            f"{len(failed)} of {jobs} processes that share the repeats did not finish",
            why="what they said stands above",
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
    """Take over whatever shares in a folder have measured, and remove them."""
    place = folder / FOLDER
    for share in sorted(path for path in place.glob("*") if path.name.isdigit()):
        _carry(share, folder, settings, EVERY)
        share.rename(place / (share.name + DONE))
    for share in place.glob(f"*{DONE}"):
        shutil.rmtree(share)
    with suppress(OSError):  # there is none, or somebody keeps something of their own in it
        place.rmdir()


def _carry(source: Path, target: Path, settings: PaperSettings, repeats: range) -> None:
    """Copy what is known of some repeats from one folder of a run to another."""
    for name in (*GRIDS, "phenotypes"):
        if (source / f"{name}.csv").is_file():
            known = RowFile(source, name, settings.to_dict())
            RowFile(target, name, settings.to_dict()).take(known, repeats)
    for path in [*source.glob("central/*-*.npz"), *source.glob("phenotypes-*.json")]:
        kept = target / path.relative_to(source)
        if int(path.stem.rpartition("-")[2]) in repeats and not kept.exists():
            _copy(path, kept)
    if 0 in repeats and (source / ITERATIONS).is_file():
        _copy(source / ITERATIONS, target / ITERATIONS)  # what a share was dealt, and more


def _copy(path: Path, to: Path) -> None:
    to.parent.mkdir(parents=True, exist_ok=True)
    part = to.with_name(to.name + ".part")
    shutil.copyfile(path, part)
    part.replace(to)
