"""Small random hospitals: tensors, event tables and factors, the odd ones included."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from tripheno.records.events import check_events
from tripheno.tensor.count_tensor import CountTensor

MODES = ("medication", "diagnosis", "lab", "procedure")
HALF_HOUR = 1_800_000_000  # microseconds

Drawn = TypeVar("Drawn")
Draw = Callable[[st.SearchStrategy[Drawn]], Drawn]

counts = st.one_of(
    st.integers(1, 6),
    st.sampled_from([254, 255, 256, 257, 65_536, 1_000_000]),
)
"""Counts of a cell: mostly small, some beyond one byte."""


def feature_sizes(*modes: int) -> st.SearchStrategy[tuple[int, ...]]:
    """Sizes of the feature modes, of which there are as many as one of ``modes`` says."""
    return st.one_of([st.tuples(*[st.integers(1, 5)] * n) for n in modes])


@st.composite
def count_tensors(draw: Draw[object], *, feature_modes: Sequence[int] = (2, 3)) -> CountTensor:
    """A tensor of a few patients over two or three feature modes (three or four modes in all).

    The shape is drawn before the cells: patients without cells, patients with one code and codes
    nobody has are common. Equal cells may be drawn twice.
    """
    sizes = _drawn(draw, feature_sizes(*feature_modes))
    patients = _drawn(draw, st.integers(1, 8))
    cell = st.tuples(*(st.integers(0, size - 1) for size in (patients, *sizes)))
    cells = _drawn(draw, st.lists(st.tuples(cell, counts), min_size=1, max_size=30))
    return CountTensor.from_cells(
        [index for index, _ in cells],
        [count for _, count in cells],
        shape=(patients, *sizes),
        modes=MODES[: len(sizes)],
    )


@st.composite
def event_tables(draw: Draw[object], *, feature_modes: int = 2) -> pa.Table:
    """An event table with a window and a time in every row, some rows twice.

    Times lie 3 hours, 6 hours and a day from each other about 1970-01-01, some a microsecond
    beside, so that windows are met exactly, missed by the least amount, and lie on both sides of
    the origin of time. One mode more than asked for takes part, which a rule over the first ones
    must leave out.
    """
    modes = MODES[:feature_modes]
    row = st.tuples(
        st.sampled_from([0, 0, 0, 1, 1, 4]),
        st.integers(-1, 2),
        st.sampled_from([-48, -12, -6, -1, 0, 0, 1, 6, 48]),
        st.sampled_from([0, 0, 0, 0, 0, 0, -1, 1]),
        st.sampled_from([*modes, *modes, MODES[feature_modes]]),
        st.sampled_from(["a", "b", "c"]),
    )
    rows = _drawn(draw, st.lists(row, min_size=1, max_size=40))
    rows += _drawn(draw, st.lists(st.sampled_from(rows), max_size=8))
    patient, window, slot, beside, mode, code = zip(*rows, strict=True)
    time = np.array(slot, dtype=np.int64) * HALF_HOUR + np.array(beside, dtype=np.int64)
    return check_events(
        {
            "patient": np.array(patient, dtype=np.int64),
            "window": np.array(window, dtype=np.int64),
            "time": pa.array(time, pa.timestamp("us")),
            "mode": list(mode),
            "code": list(code),
        }
    )


@st.composite
def factors(
    draw: Draw[object], sizes: Sequence[int], rank: int, *, nonnegative: bool = False
) -> list[np.ndarray]:
    """One factor per mode; some entries are zero, some whole columns, the scales differ."""
    rng = np.random.default_rng(_drawn(draw, st.integers(0, 2**32 - 1)))
    share = _drawn(draw, st.sampled_from([0.0, 0.3, 0.8]))
    made = []
    for size in sizes:
        factor = rng.standard_normal((size, rank)) * 10.0 ** rng.integers(-2, 3)
        factor[rng.random((size, rank)) < share] = 0.0
        factor[:, rng.random(rank) < share / 4] = 0.0
        made.append(np.abs(factor) if nonnegative else factor)
    return made


@st.composite
def positive_definite(draw: Draw[object], rank: int) -> np.ndarray:
    """A Gram matrix far from singular, of any scale."""
    rng = np.random.default_rng(_drawn(draw, st.integers(0, 2**32 - 1)))
    scale = 10.0 ** _drawn(draw, st.integers(-3, 6))
    half = rng.standard_normal((rank + 5, rank))
    return np.asarray(scale * (half.T @ half / rank + 0.1 * np.eye(rank)))


def _drawn(draw: Draw[object], strategy: st.SearchStrategy[Drawn]) -> Drawn:
    """Draw with the strategy's own type."""
    return draw(strategy)  # type: ignore[return-value]
