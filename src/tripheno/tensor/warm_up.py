"""Compile the kernels before they are needed, and say so: the wait belongs to nobody's data."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from tripheno.tensor.block_building import blocks_of_windows, in_blocks
from tripheno.tensor.blocks import PatientBlocks
from tripheno.tensor.cells import Cells


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
