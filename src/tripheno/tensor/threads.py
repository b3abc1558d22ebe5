"""Share a loop over patients among threads so that the result does not depend on their number."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from itertools import pairwise
from threading import Lock
from typing import Any, Generic, TypeVar

import numpy as np
from threadpoolctl import ThreadpoolController

CELLS_PER_CHUNK = 100_000  # about a third of a millisecond at rank 10
CELLS_PER_ROW = 128  # for each row of sums that a chunk clears, keeps for itself and adds up
FEW = 16  # chunks of which every thread should have as many
LINE = 64  # bytes of a cache line

Result = TypeVar("Result")
Kept = TypeVar("Kept")

Helpers = tuple[int, ThreadPoolExecutor]  # threads beside the one that asks, which works too
_chosen: ContextVar[Helpers | None] = ContextVar("_chosen", default=None)


@cache
def _helpers() -> Helpers:
    number = (os.cpu_count() or 1) - 1
    return number, ThreadPoolExecutor(max(number, 1), thread_name_prefix="tripheno-kernel")


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Products of small matrices on one thread: a second only waits in a loop, at a core's cost."""
    with _libraries().limit(limits=1, user_api="blas"):
        yield


@cache
def _libraries() -> ThreadpoolController:
    return ThreadpoolController()


def patient_chunks(starts: np.ndarray, rows: int = 0) -> list[tuple[int, int]]:
    """Runs of patients with about equal numbers of cells; each chunk sums into so many rows.

    The cut depends on the data alone, never on the machine: sums over chunks are bitwise the same
    for one thread and for many.
    """
    patients, cells = len(starts) - 1, int(starts[-1])
    if patients == 0:
        return [(0, 0)]
    wanted = max(cells // max(CELLS_PER_CHUNK, CELLS_PER_ROW * rows), 1)
    if wanted < FEW:
        wanted = 1 << (wanted - 1).bit_length()
    wanted = min(wanted, patients)
    targets = np.arange(1, wanted) * (cells / wanted)
    cuts = np.unique(np.concatenate([[0], np.searchsorted(starts, targets), [patients]]))
    return [(int(a), int(b)) for a, b in pairwise(cuts)]


@contextmanager
def limited_to(workers: int) -> Iterator[None]:
    """Let loops use so many threads and no more; results do not change."""
    number = workers - 1
    with ThreadPoolExecutor(max(number, 1), thread_name_prefix="tripheno-kernel") as pool:
        token = _chosen.set((number, pool))
        try:
            yield
        finally:
            _chosen.reset(token)


def in_chunks(chunks: list[tuple[int, int]], work: Callable[[int, int], Result]) -> list[Result]:
    """``work(first, last)`` for every chunk, in threads, results in the chunks' order."""
    if len(chunks) == 1:
        return [work(*chunks[0])]
    found: dict[int, Result] = {}
    turns = iter(enumerate(chunks))  # shared: handing each chunk to the pool would cost more

    def take_turns() -> None:
        for n, chunk in turns:
            found[n] = work(*chunk)

    number, pool = _chosen.get() or _helpers()
    helping = [pool.submit(take_turns) for _ in range(min(len(chunks) - 1, number))]
    take_turns()
    for ended in helping:
        ended.result()
    return [found[n] for n in range(len(chunks))]


def sum_over_chunks(
    chunks: list[tuple[int, int]],
    size: int,
    work: Callable[[int, int, np.ndarray], None],
    dtype: Any = np.float64,
) -> np.ndarray:
    """Σ over chunks of what ``work(first, last, part)`` adds to zeros, as a tree over the chunks.

    Whoever ends as the second of two neighbours adds the right one to the left: the order is fixed,
    the sums run in threads, and few parts exist at a time.
    """
    number = {chunk: n for n, chunk in enumerate(chunks)}
    ended: dict[tuple[int, int], np.ndarray] = {}
    free: list[np.ndarray] = []
    lock = Lock()

    def add_up(first: int, last: int) -> None:
        with lock:
            part = free.pop() if free else aligned(size, dtype)
        part[:] = 0.0
        work(first, last, part)
        level, n, count = 0, number[first, last], len(chunks)
        while count > 1:
            if n ^ 1 < count:
                with lock:
                    neighbour = ended.pop((level, n ^ 1), None)
                    if neighbour is None:
                        ended[level, n] = part
                        return
                part, spare = (neighbour, part) if n % 2 else (part, neighbour)
                part += spare
                free.append(spare)
            level, n, count = level + 1, n // 2, (count + 1) // 2
        ended[level, n] = part

    in_chunks(chunks, add_up)
    (total,) = ended.values()
    return total


class Lent(Generic[Kept]):
    """What a chunk's work writes in, handed on to the next chunk: one for each thread at most."""

    def __init__(self, make: Callable[[], Kept]) -> None:
        self.make = make
        self.free: list[Kept] = []

    @contextmanager
    def __call__(self) -> Iterator[Kept]:
        """What another chunk left, or a new one."""
        try:
            kept = self.free.pop()
        except IndexError:
            kept = self.make()
        yield kept
        self.free.append(kept)


def aligned(size: int, dtype: Any) -> np.ndarray:
    """Room for numbers that begins with a cache line, so that no vector straddles two."""
    room = np.empty(size * np.dtype(dtype).itemsize + LINE, dtype=np.uint8)
    begin = -room.__array_interface__["data"][0] % LINE
    return room[begin : begin + size * np.dtype(dtype).itemsize].view(dtype)
