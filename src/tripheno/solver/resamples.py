"""The finished model fitted on to resamples of the patients, all side by side in the same rounds.

Weights are drawn at home and stay there; what is added is what any fit adds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from tripheno.exchange.communicator import Communicator
from tripheno.solver.losses import loss_of
from tripheno.solver.messages import Totals
from tripheno.solver.method import Exact
from tripheno.solver.solution import Solution
from tripheno.solver.stacked import side_by_side, unit_of, widths_of
from tripheno.solver.starts import Factors
from tripheno.tensor.count_tensor import CountTensor
from tripheno.tensor.factors import unit_columns

RESAMPLED = 12  # iterations


def resampled(
    federation: Communicator,
    tensors: Mapping[str, CountTensor],
    solution: Solution,
    drawn: Mapping[str, np.ndarray],
) -> list[Factors]:
    """The model of every column of ``drawn``, hospital → patients × resamples, without its bias."""
    settings, whole = solution.settings, solution.factors
    if solution.bias is not None:
        pairs = zip(whole, solution.bias, strict=True)
        whole = tuple(np.column_stack([factor, bias]) for factor, bias in pairs)
    totals = Totals(solution.null_loss, float(solution.nonzeros), float(solution.patients))
    method = Exact(replace(settings, method="exact"), solution.axes)
    penalties, loss = method.start(whole, totals).penalties, loss_of(settings)
    models: list[Factors] = [whole] * next(iter(drawn.values())).shape[1]
    widths, unit = widths_of(models), unit_of(solution.null_loss)
    drawn = {name: tensors[name].with_its_patients(rows) for name, rows in drawn.items()}
    patients: dict[str, list[np.ndarray]] = {}
    for iteration in range(RESAMPLED):
        patients = {
            name: loss.fit_patients(tensor, models, patients.get(name))
            for name, tensor in tensors.items()
        }
        for n in range(len(whole)):
            total = federation.sum(
                f"resamples/{iteration}/{n}/0",
                lambda name, n=n, own=patients: loss.contribution(  # type: ignore[misc]
                    tensors[name], models, own[name], n, resampling=drawn[name], unit=unit
                ),
                shared=side_by_side(models),
            ).value
            for s, sums in enumerate(loss.sums(total, widths, solution.null_loss)):
                model = models[s]
                column, lengths = unit_columns(loss.step(model, n, sums, penalties[n]))
                models[s] = (*model[:n], column, *model[n + 1 :])
                for rows in patients.values():
                    rows[s] = rows[s] * lengths
    return [tuple(factor[:, : settings.n_components] for factor in model) for model in models]
