"""A solution beside the central one, and one tensor's patients dealt to several hospitals."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tripheno.errors import SettingsError, TooManyHospitals
from tripheno.solver.solution import Solution
from tripheno.tensor.count_tensor import CountTensor
from tripheno.tensor.factors import factor_match_score


class Comparison(NamedTuple):
    """A solution against the central one."""

    rmse_gap: float
    fms: float


def compare(solution: Solution, central: Solution) -> Comparison:
    """(rmse − rmse of central) / rmse of central over nonzeros, signed; and the factor match."""
    reference = central.rmse.nonzeros
    gap = (solution.rmse.nonzeros - reference) / reference if reference else 0.0
    return Comparison(gap, factor_match_score(solution.factors, central.factors))


def share_out(
    tensor: CountTensor, hospitals: int, skew: float | None, rng: np.random.Generator
) -> dict[str, CountTensor]:
    """Deal one tensor's patients at random to K hospitals."""
    rows = dealt(tensor.patients, hospitals, skew, rng)
    return {name: tensor.select_patients(own) for name, own in rows.items()}


def dealt(
    patients: int, hospitals: int, skew: float | None, rng: np.random.Generator
) -> dict[str, np.ndarray]:
    """Hospital → which of one site's patients it gets.

    ``skew`` is the share of patients at the first hospital; the others share the rest evenly.
    """
    if hospitals < 1:
        raise SettingsError(f"{hospitals} hospitals", fix="--hospitals must be 1 or more")
    if skew is not None and not 0 < skew < 1 and hospitals > 1:
        raise SettingsError(f"skew {skew}", fix="--skew must lie between 0 and 1")
    if hospitals > patients:
        raise TooManyHospitals(f"{hospitals} hospitals for {patients} patients")
    order = rng.permutation(patients)
    if hospitals == 1:
        return {"hospital-1": order}
    share = 1 / hospitals if skew is None else skew
    first = min(max(round(share * patients), 1), patients - hospitals + 1)
    parts = [order[:first], *np.array_split(order[first:], hospitals - 1)]
    return {f"hospital-{k + 1}": part for k, part in enumerate(parts)}
