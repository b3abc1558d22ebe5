"""What is demanded of the speed, and what was measured: gate, goal, figure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Demand:
    """One demand on a benchmark's figures. ``figure`` raises KeyError where they were not taken."""

    what: str
    gate: float
    goal: float
    figure: Callable[[dict[str, Any]], float]
    at_most: bool = False  # else at least


def _times(case: str, slow: str, fast: str) -> Callable[[dict[str, Any]], float]:
    def ratio(tensors: dict[str, Any]) -> float:
        seconds = tensors[case]["seconds"]
        return float(seconds[slow]["wall"] / seconds[fast]["wall"])

    return ratio


def _building(case: str, of: str) -> Callable[[dict[str, Any]], float]:
    def ratio(tensors: dict[str, Any]) -> float:
        both = tensors[case]["building"]
        return float(both["DuckDB"][of] / both["tripheno"][of])

    return ratio


def _growth(form: str) -> Callable[[dict[str, Any]], float]:
    """Seconds per cell of the largest tensor, as a share of the smallest's: 1 is linear."""

    def ratio(tensors: dict[str, Any]) -> float:
        small, large = tensors["v15"], tensors["v200"]
        seconds = large["seconds"][form]["wall"] / small["seconds"][form]["wall"]
        return float(seconds / (large["nonzeros"] / small["nonzeros"]))

    return ratio


def _of_peak(tensors: dict[str, Any]) -> float:
    return float(tensors["t50"]["share_of_peak"])


def _bytes(tensors: dict[str, Any]) -> float:
    return float(tensors["t15"]["bytes_per_nonzero"]["blocks"])


def _trip(tensors: dict[str, Any]) -> float:
    spent = {
        (run["method"], run["hospitals"]): run["cpu"]
        for run in tensors["t15"]["fits"]
        if run["precision"] == "double" and not run["rmse_each_iteration"]
    }
    return float(spent["trip", 3] / spent["central", 1])


PYTTB, SCIPY = _times("t15", "pyttb", "blocks"), _times("t15", "scipy fibre-CSR", "blocks")
SECOND_THREAD = _times("t50", "blocks, one thread", "blocks")

GATES = (
    Demand("blocks against pyttb, day windows 15M (times)", 100, 500, PYTTB),
    Demand("blocks against scipy's fibre-CSR, day windows 15M (times)", 8, 20, SCIPY),
    Demand("events against blocks, visits 50M (times)", 3, 6, _times("v50", "blocks", "events")),
    Demand("useful share of the multiply-add peak, blocks, day windows 50M", 0.2, 0.4, _of_peak),
    Demand("bytes a nonzero, blocks, day windows 15M", 6, 3.5, _bytes, at_most=True),
    Demand("growth of blocks, visits 15M to 200M", 1, 1, _growth("blocks"), at_most=True),
    Demand("growth of events, visits 15M to 200M", 1, 0.99, _growth("events"), at_most=True),
    Demand("second thread, blocks, day windows 50M (times)", 1.6, 1.85, SECOND_THREAD),
    Demand("building against DuckDB, visits 50M (times)", 5, 12, _building("v50", "wall")),
    Demand("its memory, visits 50M (times)", 2, 4, _building("v50", "megabytes")),
    Demand("building against DuckDB, day windows 50M (times)", 5, 12, _building("t50", "wall")),
    Demand("its memory, day windows 50M (times)", 2, 4, _building("t50", "megabytes")),
    Demand("`trip` K=3, blind, against `central`, 15M (CPU)", 1.5, 1.15, _trip, at_most=True),
)


def gates(found: dict[str, Any]) -> list[dict[str, Any]]:
    """Every demand whose figures were taken, in order."""
    return list(_judged(found["tensors"]))


def _judged(tensors: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for one in GATES:
        try:
            figure = one.figure(tensors)
        except KeyError:
            continue
        sign = -1.0 if one.at_most else 1.0
        yield {
            "what": one.what,
            "gate": one.gate,
            "goal": one.goal,
            "at_most": one.at_most,
            "measured": figure,
            "holds": sign * figure >= sign * one.gate,
            "goal_met": sign * figure >= sign * one.goal,
        }
