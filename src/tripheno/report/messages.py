"""What each method sends, as the page tells it."""

from __future__ import annotations

from typing import Any

_TOTALS = ("Totals", "squared counts, cells and patients, summed", "3 numbers")
_MEASURES = ("Measures", "two squared errors and the patients’ Gram matrix", "R² + 2 numbers")
_CARRIERS = ("Carriers", "how many patients have each phenotype", "R numbers")
_BY_METHOD: dict[str, list[tuple[str, str, str]]] = {
    "trip": [
        ("Proposal", "the hospital’s weighted view of one mode’s factor", "codes × R + 2R + 6"),
    ],
    "exact": [
        (
            "NormalEquations",
            "counts multiplied with the other factors, the patients’ Gram matrix",
            "codes × R + R² + 6",
        ),
    ],
    "local": [("OwnFactors", "the hospital’s own phenotypes as they are", "codes × R")],
    "central": [],
}


def what_left(run: dict[str, Any]) -> list[dict[str, str]]:
    """The messages of a run's method: name, content, size."""
    if run["method"] == "central":
        return [
            {
                "name": "every cell",
                "holds": "all patients’ counts: the pooled model is what a federation avoids",
                "size": "cells × modes",
            }
        ]
    rows = [_TOTALS, *_BY_METHOD[run["method"]], _MEASURES, _CARRIERS]
    return [{"name": name, "holds": holds, "size": size} for name, holds, size in rows]
