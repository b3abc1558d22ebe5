"""One way in for all four methods, with restarts."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import numpy as np

from tripheno.errors import TriphenoWarning
from tripheno.exchange import Guard, Listener, MakeSums
from tripheno.exchange.channel import open_door
from tripheno.solver.federated import solve_federated
from tripheno.solver.local import solve_local
from tripheno.solver.loop import Watch
from tripheno.solver.settings import SolverSettings
from tripheno.solver.solution import Solution
from tripheno.tensor.count_tensor import CountTensor
from tripheno.tensor.factors import match_components


def fit(
    tensors: Mapping[str, CountTensor],
    settings: SolverSettings,
    *,
    sums: MakeSums | None = None,
    watch: Watch | None = None,
    listen: Listener | None = None,
    guard: Guard = open_door,
) -> Solution:
    """Phenotypes of several hospitals by the method the settings name.

    With ``restarts`` > 1 the start with the lowest Ψ is kept, and the result says how well the
    others agree with it: phenotypes that come and go with the start deserve less trust. Start i
    uses the seed ``seed + i``, so that every method begins from the same places.
    """
    solve = partial(
        solve_local if settings.method == "local" else solve_federated,
        tensors, sums=sums, watch=watch, listen=listen, guard=guard,
    )  # fmt: skip
    if settings.restarts == 1:
        return solve(settings)
    found: list[tuple[Solution, list[Warning | str]]] = []
    for attempt in range(settings.restarts):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", TriphenoWarning)
            seeded = replace(settings, seed=settings.seed + attempt)
            solution = solve(seeded)
        found.append((solution, [w.message for w in caught]))
    best, said = min(found, key=lambda pair: pair[0].objective)
    for warning in said:
        warnings.warn(warning, stacklevel=2)
    others = (other for other, _ in found if other is not best)
    match = [match_components(best.factors, other.factors).similarity for other in others]
    return replace(
        best,
        restart_match=tuple(float(one.mean()) for one in match),
        component_match=tuple(float(value) for value in np.mean(match, axis=0)),
    )
