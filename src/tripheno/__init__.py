"""Phenotypes from the combined patients of several hospitals; every patient row stays at home.

The names below are the whole public shelf; they are loaded when first used, so that importing
tripheno costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from tripheno.errors import NotFittedError, TriphenoError
    from tripheno.evaluation.error import rmse
    from tripheno.records.events import CountingRule
    from tripheno.report.loaded import load_run
    from tripheno.study.phenotyper import Phenotyper
    from tripheno.tensor.count_tensor import CountTensor
    from tripheno.tensor.factors import factor_match_score, match_components

_SHELF = {
    "CountTensor": "tripheno.tensor.count_tensor",
    "CountingRule": "tripheno.records.events",
    "NotFittedError": "tripheno.errors",
    "Phenotyper": "tripheno.study.phenotyper",
    "TriphenoError": "tripheno.errors",
    "load_run": "tripheno.report.loaded",
    "factor_match_score": "tripheno.tensor.factors",
    "match_components": "tripheno.tensor.factors",
    "rmse": "tripheno.evaluation.error",
}

__all__ = [
    "CountTensor",
    "CountingRule",
    "NotFittedError",
    "Phenotyper",
    "TriphenoError",
    "factor_match_score",
    "load_run",
    "match_components",
    "rmse",
]


def __getattr__(name: str) -> Any:
    if name in _SHELF:
        return getattr(import_module(_SHELF[name]), name)
    raise AttributeError(f"module 'tripheno' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
