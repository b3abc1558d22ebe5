"""The losses there are, by the name that settings give them."""

from __future__ import annotations

from tripheno.solver.loss import Loss
from tripheno.solver.poisson import PoissonLoss
from tripheno.solver.settings import SolverSettings
from tripheno.solver.squared import SquaredLoss


def loss_of(settings: SolverSettings) -> Loss:
    """The loss that these settings ask for."""
    if settings.loss == "poisson":
        return PoissonLoss()
    return SquaredLoss(settings.constraint != "none")
