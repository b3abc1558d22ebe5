"""One way in for all four methods, with restarts."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from tripheno.errors import TriphenoWarning
from tripheno.exchange.communicator import Communicator, in_clear
from tripheno.solver.checkpoints import Store
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
    federation: Communicator | None = None,
    *,
    label: str = "",
    watch: Watch | None = None,
    store: Store | None = None,
) -> Solution:
    """Phenotypes of several hospitals by the method the settings name.

    With ``restarts`` > 1 the start with the lowest Ψ is kept, and the result says how well the
    others agree with it: phenotypes that come and go with the start deserve less trust. Start i
    uses the seed ``seed + i``, so that every method begins from the same places.
    """
    federation = federation or in_clear(tensors)
    solve = solve_local if settings.method == "local" else solve_federated
    if settings.restarts == 1:
        return solve(tensors, settings, federation, label=label, watch=watch, store=store)
    found: list[tuple[Solution, list[Warning | str]]] = []
    for attempt in range(settings.restarts):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", TriphenoWarning)
            seeded = replace(settings, seed=settings.seed + attempt)
            named = f"{label}start-{attempt}/"
            solution = solve(tensors, seeded, federation, label=named, watch=watch, store=store)
        found.append((solution, [w.message for w in caught]))
    own = int(np.argmin([solution.objective for solution, _ in found]))
    chosen = federation.choose(f"{label}choice/start", own)
    best, said = found[chosen]
    for warning in said:
        warnings.warn(warning, stacklevel=2)
    others = (other for other, _ in found if other is not best)
    match = [match_components(best.factors, other.factors).similarity for other in others]
    return replace(
        best,
        costs=found[-1][0].costs,  # of all starts: traffic is counted from the first on
        restart_match=tuple(float(one.mean()) for one in match),
        component_match=tuple(float(value) for value in np.mean(match, axis=0)),
    )
