"""What may be claimed about hospitals: only what a random split of their patients does not show."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tripheno.solver.influence import with_bound
from tripheno.solver.loss import Loss
from tripheno.solver.losses import loss_of
from tripheno.solver.solution import Solution
from tripheno.solver.stacked import unit_of, widths_of
from tripheno.solver.starts import Factors
from tripheno.tensor.count_tensor import CountTensor, pooled
from tripheno.tensor.factors import similarity_matrix, unit_columns
from tripheno.tensor.threads import one_blas_thread

FALSE_CLAIMS = 0.05
SPLITS = 19  # with the true one twenty: the fewest that can say 5 %
STEPS = 5  # iterations from the model of all to a hospital's own


@one_blas_thread()
def hospitals_differ(
    tensors: Mapping[str, CountTensor], solution: Solution, seed: int = 0
) -> np.ndarray:
    """Per component, whether it comes back at some hospitals and not at others, beyond chance.

    Every hospital's model, begun from that of all, beside those of random groups of the same
    sizes. Needs all patients in one place: for simulations.
    """
    whole, loss = pooled(list(tensors.values())), loss_of(solution.settings)
    if solution.bound is not None:
        whole = with_bound(whole, solution.bound)
    groups = np.repeat(np.arange(len(tensors)), [one.patients for one in tensors.values()])
    rng = np.random.default_rng(seed)
    observed = own_likeness(whole, solution.factors, groups, loss)
    claims = np.ones(observed.shape[1], dtype=bool)
    null: list[np.ndarray] = []
    while claims.any() and len(null) < SPLITS:  # a further split only ever takes claims back
        null.append(own_likeness(whole, solution.factors, rng.permutation(groups), loss))
        claims = origin_claims(observed, np.stack(null), splits=SPLITS)
    return claims


def own_likeness(
    whole: CountTensor, factors: Factors, groups: np.ndarray, loss: Loss
) -> np.ndarray:
    """Groups × components: how alike the nearest phenotype of each group's own model is."""
    parts = [whole.select_patients(np.flatnonzero(groups == g)) for g in range(groups.max() + 1)]
    models = [_own_model(part, factors, loss) for part in parts]
    return np.stack([similarity_matrix(factors, model).max(axis=1) for model in models])


def _own_model(tensor: CountTensor, factors: Factors, loss: Loss) -> Factors:
    """A few iterations from the model of all, on some patients."""
    null = loss.null(tensor)
    for _ in range(STEPS):
        (patients,) = loss.fit_patients(tensor, [factors])
        for n in range(len(factors)):
            total = loss.contribution(tensor, [factors], [patients], n, unit=unit_of(null))
            (sums,) = loss.sums(total, widths_of([factors]), null)
            column, lengths = unit_columns(loss.step(factors, n, sums))
            factors = (*factors[:n], column, *factors[n + 1 :])
            patients = patients * lengths
    return factors


def origin_claims(
    observed: np.ndarray,
    null: np.ndarray,
    level: float = FALSE_CLAIMS,
    *,
    splits: int | None = None,
) -> np.ndarray:
    """Which phenotypes differ between hospitals by more than a random split would make them.

    ``observed`` is hospitals × components (how alike the nearest own phenotype is), ``null`` the
    same for splits of the same patients at random, splits × hospitals × components. The spread over
    hospitals must be larger than in all but ``level`` of the splits; the largest spread of any
    component in a split counts, for every component is asked. Of more ``splits`` than are in
    ``null``, those to come are taken to be on the claim's side.
    """
    splits = len(null) if splits is None else splits
    if (splits + 1) * level < 1.0:
        return np.zeros(observed.shape[1], dtype=bool)  # too few splits to say anything
    spread = observed.max(axis=0) - observed.min(axis=0)
    largest = (null.max(axis=1) - null.min(axis=1)).max(axis=1)
    chance = (1.0 + (largest[:, None] >= spread).sum(axis=0)) / (splits + 1.0)
    return np.asarray(chance <= level)
