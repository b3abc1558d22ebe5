from __future__ import annotations

import numpy as np

from tripheno.solver.penalties import FactorPenalty
from tripheno.tensor.factors import unit_columns
from tripheno.testing.penalty_contract import CODES, RANK, PenaltyContract

GUIDE = unit_columns(np.eye(CODES)[:, :RANK] * np.array([1.0, 1.0, 0.0]))[0]


class TestNone(PenaltyContract):
    penalty = FactorPenalty("nonnegative")


class TestSparse(PenaltyContract):
    penalty = FactorPenalty("sparse", sparsity=0.3)


class TestDistinct(PenaltyContract):
    penalty = FactorPenalty("nonnegative", distinctness=0.7)


class TestGuided(PenaltyContract):
    penalty = FactorPenalty("nonnegative", pull=0.5, guide=GUIDE)


class TestAllAtOnce(PenaltyContract):
    penalty = FactorPenalty("sparse", 0.2, 0.4, pull=0.5, guide=GUIDE)
