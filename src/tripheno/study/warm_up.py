"""Compile all that a study needs: ``python -m tripheno.study.warm_up`` belongs to an installation.

The first command would otherwise wait for the compiler. What it leaves is found again by every
process of the same user, or of all users where ``NUMBA_CACHE_DIR`` names one folder for them.
"""

from __future__ import annotations

import warnings

import numpy as np
import pyarrow as pa

from tripheno.errors import TriphenoWarning
from tripheno.evaluation.claims import hospitals_differ
from tripheno.records.events import CountingRule
from tripheno.solver.settings import SolverSettings
from tripheno.study.makers import Maker
from tripheno.study.simulation import assemble, run_method
from tripheno.tensor.count_tensor import CountTensor
from tripheno.tensor.vectors import BYTES, WIDEST
from tripheno.tensor.warm_up import warm_up

PATIENTS, CODES = 12, 4
RULE = CountingRule(("a", "b"), "visit")


def prepare() -> None:
    """Kernels at every width of a strip; then a study as small as can be, for all the others."""
    for lanes in range(1, WIDEST + 1):
        warm_up(lanes * BYTES // 8)
    events = _events(np.random.default_rng(0))
    # a table in two pieces is counted from arrays of our own, others from such as cannot be written
    tables = {"one": events, "two": pa.concat_tables([events, events]), "three": events}
    counted = {name: CountTensor.from_events(table, rule=RULE) for name, table in tables.items()}
    cells = counted["one"]
    CountTensor.from_cells(*cells.coordinates(), shape=cells.shape)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TriphenoWarning)
        federation = assemble(counted)
        for starts in (1, 2):
            settings = SolverSettings(2, "exact", max_iter=2, starts=starts)
            found, _ = run_method(federation, settings, Maker(), resamples=2)
        hospitals_differ(federation.tensors, found)


def _events(rng: np.random.Generator) -> pa.Table:
    """A few codes of two modes in one visit of each patient."""
    rows = [
        (n, mode, f"{mode}{code}")
        for n in range(PATIENTS)
        for mode in RULE.modes
        for code in rng.choice(CODES, 2, replace=False)
    ]
    patient, mode, code = map(list, zip(*rows, strict=True))
    return pa.table({"patient": patient, "window": patient, "mode": mode, "code": code})


if __name__ == "__main__":
    prepare()
