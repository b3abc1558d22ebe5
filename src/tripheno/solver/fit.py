"""One way in for all four methods."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import numpy as np

from tripheno.exchange.communicator import Communicator, in_clear
from tripheno.solver.checkpoints import Store
from tripheno.solver.federated import solve_federated
from tripheno.solver.influence import common_bound, with_bound
from tripheno.solver.local import solve_local
from tripheno.solver.loop import Watch
from tripheno.solver.settings import SolverSettings
from tripheno.solver.solution import Solution
from tripheno.tensor.count_tensor import CountTensor
from tripheno.tensor.threads import one_blas_thread


def fit(
    tensors: Mapping[str, CountTensor],
    settings: SolverSettings,
    federation: Communicator | None = None,
    *,
    label: str = "",
    won: tuple[np.ndarray, ...] = (),
    watch: Watch | None = None,
    store: Store | None = None,
) -> Solution:
    """Phenotypes of several hospitals by the method the settings name.

    With ``starts`` > 1 a tournament finds where to begin, and the result says how well its
    finalists agree: phenotypes that come and go with the start deserve less trust. With
    ``influence`` bounded no patient counts for more than the typical one. ``won`` is the start that
    won another method's tournament, which is not held again.
    """
    federation = federation or in_clear(tensors)
    bound = None
    if settings.influence == "bounded":
        bound = common_bound(federation, label, tensors)
        tensors = {name: with_bound(tensor, bound) for name, tensor in tensors.items()}
    solve = solve_local if settings.method == "local" else partial(solve_federated, won=won)
    with one_blas_thread():
        found = solve(tensors, settings, federation, label=label, watch=watch, store=store)
    own = {name: replace(model, bound=bound) for name, model in found.own.items()}
    return replace(found, bound=bound, own=own)
