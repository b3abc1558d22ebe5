"""The plain twins: each fast path again in a few lines anyone can check, tested to be equal.

Slow and dense on purpose. Nothing in the product calls them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import product as combinations

import numpy as np
import pyarrow as pa

from tripheno.records.events import CountingRule


def model(factors: Sequence[np.ndarray]) -> np.ndarray:
    """X = Σ_r a_r ∘ b_r ∘ …, dense; the patient factor comes first."""
    letters = "abcdefgh"[: len(factors)]
    terms = ",".join(f"{letter}z" for letter in letters)
    return np.asarray(np.einsum(f"{terms}->{letters}", *factors))


def weighted(array: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """An array whose first mode is the patient, patient i's part times w_i."""
    return np.stack([weight * part for weight, part in zip(weights, array, strict=True)])


def mttkrp(dense: np.ndarray, factors: Sequence[np.ndarray], mode: int) -> np.ndarray:
    """O₍ₙ₎Π for any mode, 0 being the patients."""
    letters = "abcdefgh"[: dense.ndim]
    others = [n for n in range(dense.ndim) if n != mode]
    terms = ",".join(f"{letters[n]}z" for n in others)
    wanted = f"{letters},{terms}->{letters[mode]}z"
    return np.asarray(np.einsum(wanted, dense, *(factors[n] for n in others)))


def squared_errors(dense: np.ndarray, factors: Sequence[np.ndarray]) -> tuple[float, float]:
    """Σ (X − O)² over nonzero cells, and over all cells."""
    difference = model(factors) - dense
    return float((difference[dense > 0] ** 2).sum()), float((difference**2).sum())


def nonnegative_rows(rhs: np.ndarray, gram: np.ndarray) -> np.ndarray:
    """argmin_{x≥0} xᵀGx − 2xᵀb for every row b: each coordinate in turn to its best, until still.

    Not scipy's `nnls`: since 1.15 it returns wrong answers now and then (scipy issue 25389).
    """
    rows, before = np.zeros_like(rhs), np.full_like(rhs, np.inf)
    while (np.abs(rows - before) > 1e-13 * rows.max(axis=1, keepdims=True)).any():
        before = rows.copy()
        for r, column in enumerate(gram):
            rows[:, r] = np.maximum(rows[:, r] + (rhs[:, r] - rows @ column) / column[r], 0.0)
    return rows


def count(events: pa.Table, rule: CountingRule) -> Counter[tuple[object, ...]]:
    """(patient, code, code, …) → count, by the letter of the rule, from Python loops."""
    rows = events.select(["patient", "window", "time", "mode", "code"]).to_pylist()
    cells: Counter[tuple[object, ...]] = Counter()
    if rule.sliding_width is not None:
        width = rule.sliding_width
        first, second = ([row for row in rows if row["mode"] == mode] for mode in rule.modes)
        for one, other in combinations(first, second):
            apart = abs(one["time"] - other["time"]).total_seconds() * 1e6
            if one["patient"] == other["patient"] and apart <= width:
                cells[one["patient"], one["code"], other["code"]] += 1
    else:
        windows: dict[tuple[object, object], dict[str, set[str]]] = {}
        for row in rows:
            here = windows.setdefault((row["patient"], _window(row, rule)), {})
            here.setdefault(row["mode"], set()).add(row["code"])
        for (patient, _), codes in windows.items():
            for combination in combinations(*(codes.get(mode, set()) for mode in rule.modes)):
                cells[(patient, *combination)] += 1
    cap = rule.cap or max(cells.values(), default=0)
    return Counter({cell: min(times, cap) for cell, times in cells.items()})


def _window(row: dict[str, object], rule: CountingRule) -> object:
    if rule.window == "visit":
        return row["window"]
    if rule.window == "person":
        return 0
    moment = np.datetime64(row["time"], "us").astype(np.int64)  # type: ignore[call-overload]
    return moment // rule.calendar_width


def poisson_sums(
    dense: np.ndarray, factors: Sequence[np.ndarray], mode: int
) -> tuple[np.ndarray, np.ndarray, float]:
    """Σ (x/m)π and Σ (x/m²)ππᵀ per row of a mode, 0 being the patients; and Σ x log m."""
    mean = model(factors)
    filled = dense > 0
    share, bent = np.zeros_like(mean), np.zeros_like(mean)
    share[filled] = dense[filled] / mean[filled]
    bent[filled] = share[filled] / mean[filled]
    rank = factors[0].shape[1]
    pairs = [f[:, :, None] * f[:, None, :] for f in factors]
    squares = [pair.reshape(len(pair), rank * rank) for pair in pairs]
    slopes, curves = mttkrp(share, factors, mode), mttkrp(bent, squares, mode)
    value = float((dense[filled] * np.log(mean[filled])).sum())
    return slopes, curves.reshape(-1, rank, rank), value


def first_distinct(ends: np.ndarray, numbers: np.ndarray, size: int) -> list[list[int]]:
    """The first codes drawn by weight that differ, ``size`` of them or as many as there are."""
    codes = np.minimum(np.searchsorted(ends, numbers, side="right"), len(ends) - 1)
    return [list(dict.fromkeys(row.tolist()))[:size] for row in codes]


def relabelled_products(
    values: np.ndarray, places: np.ndarray, drawn: np.ndarray, stacked: np.ndarray
) -> np.ndarray:
    """Σ_cells count · Π_n row of the code that stands for the cell's, per twin and column."""
    return np.asarray((values[:, None] * stacked[drawn[:, places]].prod(axis=2)).sum(axis=1))
