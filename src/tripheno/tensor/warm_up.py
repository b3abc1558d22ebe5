"""Compile the kernels before they are needed, and say so: the wait belongs to nobody's data.

``python -m tripheno.tensor.warm_up`` belongs to an installation: a study's first command would
otherwise wait for the compiler. What it leaves is found again by every process of the same user,
or of all users where ``NUMBA_CACHE_DIR`` names one folder for them.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from tripheno.records.events import CountingRule
from tripheno.tensor.block_building import blocks_of_windows, in_blocks
from tripheno.tensor.blocks import PatientBlocks
from tripheno.tensor.cells import Cells
from tripheno.tensor.count_tensor import CountTensor
from tripheno.tensor.relabelling_kernels import first_distinct, guide_to, relabelled_products
from tripheno.tensor.rows import solve_rows
from tripheno.tensor.vectors import BYTES, WIDEST


def warm_up(rank: int = 10, say: Callable[[str], None] | None = None) -> float:
    """Load the kernels of a rank from the disk cache, or compile them; the seconds it took.

    The first process on a machine waits, later ones read what it left. A kernel is compiled for
    each of three widths, so ranks that need the same last width share it.
    """
    say = say or (lambda _: None)
    started = time.perf_counter()
    features = [np.ones((1, rank)), np.ones((1, rank))]
    gram = np.eye(rank)
    for name, stored in (("cells", _one_cell()), ("windows", _one_window())):
        say(f"preparing kernels: {name}")
        patients, _ = stored.update_patients(features, gram, nonnegative=True)
        for mode in range(2):
            stored.feature_product(features, patients, mode)
        stored.patient_product(features)
        stored.at_cells(features, patients)
    seconds = time.perf_counter() - started
    say(f"kernels ready after {seconds:.1f} s")
    return seconds


def _one_cell() -> Cells | PatientBlocks:
    cells = Cells(np.array([0, 1]), np.array([[0, 0]]), np.array([1]), (1, 1))
    return in_blocks(cells)


def _one_window() -> Cells | PatientBlocks:
    whole = np.array([0, 2], dtype=np.int64)
    one = np.array([0, 1], dtype=np.int64)
    found = blocks_of_windows(whole, one, np.array([0, 1], dtype=np.int32), (1, 1), None)
    return found or _one_cell()


def prepare() -> None:
    """Everything that a study of two feature modes compiles, at every width of a strip."""
    events = {
        "patient": [0, 0, 1, 1], "window": [0, 0, 1, 1],
        "mode": ["a", "b"] * 2, "code": ["one", "two"] * 2,
    }  # fmt: skip
    tensor = CountTensor.from_events(events, rule=CountingRule(("a", "b"), "visit"))
    values = tensor.cells.values
    CountTensor.from_cells(np.zeros((1, 3), dtype=np.int32), np.ones(1, int), shape=(1, 1, 1))
    for lanes in range(1, WIDEST + 1):
        warm_up(lanes * BYTES // 8)
    solve_rows(np.ones((1, 2)), np.eye(2), nonnegative=True)
    found, short = np.zeros((1, 1), dtype=np.int64), np.zeros(1, dtype=bool)
    ends = np.ones(1)
    first_distinct(ends, guide_to(ends), np.zeros((1, 2)), found, short)
    places = np.zeros((len(values), 2), dtype=np.int64)
    relabelled_products(values.astype(float), places, found, np.ones((1, 1)), np.zeros((1, 1)))


if __name__ == "__main__":
    prepare()
