"""The seed paper's first table: the phenotypes of every model side by side, like with like."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tripheno.evaluation.origin import origins
from tripheno.evaluation.recovery import FOUND_FROM
from tripheno.privacy.prevalence import MIN_CELL
from tripheno.report.phenotypes import Evidence, phenotypes_of
from tripheno.solver.influence import effective_parts, effective_patients, influence_weights
from tripheno.solver.solution import Solution
from tripheno.tensor.count_tensor import CountTensor
from tripheno.tensor.factors import match_components

Row = dict[str, Any]


def models_table(
    together: Solution,
    pooled: Solution | None,
    own: Mapping[str, Solution],
    tensors: Mapping[str, CountTensor],
) -> dict[str, Any]:
    """Rows of matched phenotypes: together, pooled, then each hospital's own model.

    The first rows are the federation's phenotypes by rank; below stand those that only another
    model has. A row names the hospitals whose own model has the phenotype: shared by several,
    particular to one, or seen only together.
    """
    models: dict[str, Solution] = {together.settings.method: together}
    if pooled is not None and pooled is not together:
        models["pooled"] = pooled
    models |= {name: model for name, model in own.items() if name not in models}
    names = list(models)
    titles = {
        name: _titles(model, [tensors[name]] if name in own else list(tensors.values()))
        for name, model in models.items()
    }
    rows: list[Row] = []
    claimed: dict[str, set[int]] = {name: set() for name in names}
    for lead in names:
        rows += _rows_led_by(lead, models, titles, claimed, own)
    return {"models": names, "hospitals": list(own), "rows": rows}


def _titles(model: Solution, tensors: Sequence[CountTensor]) -> list[str]:
    """What a model's phenotypes are called: by codes only where enough patients carry them.

    ``tensors`` are those it was fitted to; a patient counts as much as in the fit.
    """
    rows, weights = np.vstack(list(model.patient_factors.values())), None
    if model.bound is not None:
        weights = np.concatenate([influence_weights(t, model.bound) for t in tensors])
    effective = effective_patients(effective_parts(rows, weights))
    named = [bool(one >= MIN_CELL) for one in effective]
    return [p.title for p in phenotypes_of(model, evidence=Evidence(named=named))]


def _rows_led_by(
    lead: str,
    models: Mapping[str, Solution],
    titles: Mapping[str, list[str]],
    claimed: dict[str, set[int]],
    own: Mapping[str, Solution],
) -> list[Row]:
    """One row for each phenotype of a model that no earlier row holds."""
    matches = {
        name: match_components(models[lead].factors, model.factors)
        for name, model in models.items()
        if name != lead
    }
    where = origins(models[lead], own) if own else None
    rows: list[Row] = []
    for r in range(len(models[lead].weights)):
        if r in claimed[lead]:
            continue
        claimed[lead].add(r)
        cells: dict[str, Any] = {lead: {"rank": r + 1, "title": titles[lead][r], "similarity": 1.0}}
        for name, match in matches.items():
            other, similarity = int(match.other[r]), float(match.similarity[r])
            if other < 0 or similarity < FOUND_FROM or other in claimed[name]:
                continue
            claimed[name].add(other)
            title = titles[name][other]
            cells[name] = {"rank": other + 1, "title": title, "similarity": round(similarity, 4)}
        kind, hospitals = (where[r].kind, where[r].hospitals) if where else (None, ())
        in_order = [cells.get(name) for name in models]
        rows.append({"cells": in_order, "kind": kind, "hospitals": list(hospitals)})
    return rows
