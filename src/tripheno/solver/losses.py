"""The losses there are, by the name that settings give them."""

from __future__ import annotations

from collections.abc import Callable

from tripheno.solver.loss import Loss
from tripheno.solver.poisson import PoissonLoss
from tripheno.solver.settings import SolverSettings
from tripheno.solver.squared import SquaredLoss

BY_NAME: dict[str, Callable[[SolverSettings], Loss]] = {
    "squared": lambda settings: SquaredLoss(settings.constraint != "none"),
    "poisson": lambda _settings: PoissonLoss(),
}


def loss_of(settings: SolverSettings) -> Loss:
    """The loss that these settings ask for."""
    return BY_NAME[settings.loss](settings)
