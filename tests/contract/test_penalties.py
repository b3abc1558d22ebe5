from __future__ import annotations

import numpy as np

from tripheno.solver.distinctness import Distinctness
from tripheno.solver.guidance import Guidance
from tripheno.solver.penalties import FactorPenalty
from tripheno.solver.sparsity import Sparsity
from tripheno.tensor.factors import unit_columns
from tripheno.testing.penalty_contract import CODES, RANK, PenaltyContract

GUIDE = unit_columns(np.eye(CODES)[:, :RANK] * np.array([1.0, 1.0, 0.0]))[0]


class TestNone(PenaltyContract):
    penalty = FactorPenalty()


class TestSparse(PenaltyContract):
    penalty = FactorPenalty((Sparsity(0.3),))


class TestDistinct(PenaltyContract):
    penalty = FactorPenalty((Distinctness(0.7),))


class TestGuided(PenaltyContract):
    penalty = FactorPenalty((Guidance(0.5, GUIDE),))


class TestAllAtOnce(PenaltyContract):
    penalty = FactorPenalty((Sparsity(0.2), Distinctness(0.4), Guidance(0.5, GUIDE)))
