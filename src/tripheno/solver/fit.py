"""One way in for all four methods, with restarts."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace

from tripheno.exchange import Sums
from tripheno.solver.federated import solve_federated
from tripheno.solver.local import solve_local
from tripheno.solver.loop import Watch
from tripheno.solver.settings import SolverSettings
from tripheno.solver.solution import Solution
from tripheno.tensor.count_tensor import CountTensor
from tripheno.tensor.factors import factor_match_score


def fit(
    tensors: Mapping[str, CountTensor],
    settings: SolverSettings,
    *,
    sums: Sums | None = None,
    watch: Watch | None = None,
) -> Solution:
    """Phenotypes of several hospitals by the method the settings name.

    With ``restarts`` > 1 the start with the lowest Ψ is kept, and the result says how well the
    others agree with it: phenotypes that come and go with the start deserve less trust. Start i
    uses the seed ``seed + i``, so that every method begins from the same places.
    """
    best: Solution | None = None
    found: list[Solution] = []
    for attempt in range(settings.restarts):
        once = replace(settings, seed=settings.seed + attempt)
        with warnings.catch_warnings(record=settings.restarts > 1):
            if settings.method == "local":
                solution = solve_local(tensors, once, sums=sums, watch=watch)
            else:
                solution = solve_federated(tensors, once, sums=sums, watch=watch)
        found.append(solution)
        if best is None or solution.objective < best.objective:
            best = solution
    assert best is not None  # noqa: S101 - settings demand one start at least
    if settings.restarts == 1:
        return best
    for note in best.notes:
        warnings.warn(note, stacklevel=2)
    others = (other for other in found if other is not best)
    match = tuple(factor_match_score(other.factors, best.factors) for other in others)
    return replace(best, restart_match=match)
