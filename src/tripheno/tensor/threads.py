"""Share a loop over patients among threads so that the result does not depend on their number."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from itertools import pairwise
from typing import TypeVar

import numpy as np

CELLS_PER_CHUNK = 100_000  # below that, a chunk's own sums cost as much as its cells
MOST_CHUNKS = 16

Result = TypeVar("Result")

_chosen: ContextVar[ThreadPoolExecutor | None] = ContextVar("_chosen", default=None)


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(os.cpu_count() or 1, thread_name_prefix="tripheno-kernel")


def patient_chunks(starts: np.ndarray) -> list[tuple[int, int]]:
    """Runs of patients with about equal numbers of cells.

    The cut depends on the data alone, never on the machine: sums over chunks, taken in order, are
    bitwise the same for one thread and for many.
    """
    patients, cells = len(starts) - 1, int(starts[-1])
    if patients == 0:
        return [(0, 0)]
    wanted = min(max(cells // CELLS_PER_CHUNK, 1), MOST_CHUNKS, patients)
    targets = np.arange(1, wanted) * (cells / wanted)
    cuts = np.unique(np.concatenate([[0], np.searchsorted(starts, targets), [patients]]))
    return [(int(a), int(b)) for a, b in pairwise(cuts)]


@contextmanager
def limited_to(workers: int) -> Iterator[None]:
    """Let loops use so many threads and no more; results do not change."""
    with ThreadPoolExecutor(workers, thread_name_prefix="tripheno-kernel") as pool:
        token = _chosen.set(pool)
        try:
            yield
        finally:
            _chosen.reset(token)


def in_chunks(chunks: list[tuple[int, int]], work: Callable[[int, int], Result]) -> list[Result]:
    """``work(first, last)`` for every chunk, in threads, results in the chunks' order."""
    if len(chunks) == 1:
        return [work(*chunks[0])]
    return list((_chosen.get() or _pool()).map(lambda chunk: work(*chunk), chunks))
