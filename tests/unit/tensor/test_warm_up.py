"""Kernels are compiled when asked for, not at import, and only once on a machine."""

from __future__ import annotations

import subprocess
import sys

from tripheno.tensor import block_kernels
from tripheno.tensor.warm_up import warm_up


def test_the_wait_is_announced_and_the_kernels_are_there():
    said = []
    assert warm_up(3, said.append) > 0
    assert said[0].startswith("preparing kernels")
    assert said[-1].startswith("kernels ready")
    assert block_kernels.solve_and_add.signatures


def test_importing_the_tensors_compiles_nothing():
    code = (
        "from tripheno.tensor import CountTensor, block_kernels as k;"
        "assert not k.solve_and_add.signatures"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_second_process_reads_the_kernels_from_the_disk():
    code = (
        "from tripheno.tensor.warm_up import warm_up;"
        "from tripheno.tensor import block_kernels as k;"
        "warm_up(3); assert sum(k.solve_and_add.stats.cache_hits.values()) == 1"
    )
    warm_up(3)
    subprocess.run([sys.executable, "-c", code], check=True)
