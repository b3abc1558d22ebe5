"""Questions about a finished model, each answered by one sum over the hospitals.

Who carries a phenotype, how well unseen counts are foretold, whether the core is consistent: a
hospital works on its own patients and contributes numbers whose shape follows from the rank.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from tripheno.exchange import Broadcast, Contribution, Exchange
from tripheno.tensor.count_tensor import CountTensor
from tripheno.tensor.factors import gram_of_others
from tripheno.tensor.rows import solve_rows

LEAST_COUNTS = 3.0  # a phenotype must account for this many of a patient's counts
RIDGE = 0.1  # of the mean of diag ΠᵀΠ: memberships told from few seen codes must not explode
LEAST_SHARE = 0.1  # and for this share of all counts the model expects of the patient


# ── who carries a phenotype ───────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class CountCarriers(Broadcast):
    """The rule by which a patient has a phenotype."""

    least_counts: float = LEAST_COUNTS
    least_share: float = LEAST_SHARE


@dataclass(frozen=True)
class Carriers(Contribution):
    """How many patients have each phenotype."""

    carriers: np.ndarray


def expected_counts(patient_factor: np.ndarray, features: Sequence[np.ndarray]) -> np.ndarray:
    """m_ir = |a_ir| · Π_n Σ_j |A⁽ⁿ⁾_jr|: how many of a patient's counts a phenotype stands for.

    Unlike the bare membership it does not depend on how the factors are scaled.
    """
    sums = [np.abs(factor).sum(axis=0) for factor in features]
    return np.asarray(np.abs(patient_factor) * np.prod(sums, axis=0))


def carriers(
    patient_factor: np.ndarray,
    features: Sequence[np.ndarray],
    rule: CountCarriers | None = None,
) -> np.ndarray:
    """Which patient (row) has which phenotype (column).

    A patient has a phenotype that stands for at least 3 of the patient's counts and at least a
    tenth of all counts that the model expects of the patient.
    """
    rule = rule or CountCarriers()
    counts = expected_counts(patient_factor, features)
    share = rule.least_share * counts.sum(axis=1, keepdims=True)
    return np.asarray(counts >= np.maximum(share, rule.least_counts))


def own_carriers(
    patient_factor: np.ndarray, features: Sequence[np.ndarray], rank: int, rule: CountCarriers
) -> Carriers:
    """One hospital's count; a bias, the column after the last phenotype, is no phenotype."""
    shown = [factor[:, :rank] for factor in features]
    return Carriers(carriers(patient_factor[:, :rank], shown, rule).sum(axis=0).astype(np.float64))


def count_carriers(exchange: Exchange, rank: int) -> np.ndarray:
    """Patients of all hospitals who have each phenotype of the model just finished."""
    total = exchange.sum("carriers", CountCarriers(), Carriers(np.zeros(rank)))
    return np.asarray(np.rint(total.carriers), dtype=np.int64)


# ── are unseen counts foretold ────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Foretell(Broadcast):
    """Factors, and the codes of the last mode that may be looked at."""

    factors: tuple[np.ndarray, ...]
    seen: np.ndarray  # 1 for a code that may be looked at
    nonnegative: int


@dataclass(frozen=True)
class Foretold(Contribution):
    """Squared error and squared norm over the codes that were not looked at."""

    squared_error: float
    squared_norm: float

    @classmethod
    def zeros(cls) -> Self:
        """An empty sum."""
        return cls(0.0, 0.0)


def foretell(tensor: CountTensor, asked: Foretell) -> Foretold:
    """Estimate each patient's memberships from the seen codes and foretell the others."""
    *others, last = asked.factors
    seen = asked.seen.astype(bool)
    known = [*others, last * seen[:, None]]
    hidden = [*others, last * ~seen[:, None]]
    gram = gram_of_others(known)
    gram = gram + RIDGE * (np.trace(gram_of_others(asked.factors)) / len(gram)) * np.eye(len(gram))
    product = tensor.cells.patient_product(known)
    rows = solve_rows(product, gram, nonnegative=bool(asked.nonnegative))
    inner = float((rows * tensor.cells.patient_product(hidden)).sum())
    model = float(((rows.T @ rows) * gram_of_others(hidden)).sum())
    counts = tensor.cells.values[~seen[tensor.cells.indices[:, -1]]].astype(np.float64)
    norm = float(counts @ counts)
    return Foretold(norm - 2.0 * inner + model, norm)


def held_out_error(
    exchange: Exchange,
    features: Sequence[np.ndarray],
    rng: np.random.Generator,
    *,
    nonnegative: bool,
) -> float:
    """‖O − X‖²/‖O‖² over the hospitals' cells at codes not looked at.

    The codes of the last mode are split in two. From one part of a patient's cells the memberships
    are estimated, the other part is foretold, and the other way round. Asked of patients that the
    factors have not seen, it rises with components that fit noise.
    """
    size = len(features[-1])
    part = rng.permutation(size) < size // 2
    error = norm = 0.0
    for number, seen in enumerate((part, ~part)):
        asked = Foretell(tuple(features), seen.astype(np.int64), int(nonnegative))
        total = exchange.sum(f"foretell/{number}", asked, Foretold.zeros())
        error, norm = error + total.squared_error, norm + total.squared_norm
    return error / norm if norm else 1.0


# ── is the core consistent ────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class AskCore(Broadcast):
    """The feature factors' pseudo-inverses, transposed."""

    inverses: tuple[np.ndarray, ...]


@dataclass(frozen=True)
class CoreParts(Contribution):
    """A_kᵀA_k, and A_kᵀ times the tensor times the inverses: components × components × …."""

    patient_gram: np.ndarray
    core: np.ndarray


def core_parts(tensor: CountTensor, patient_factor: np.ndarray, asked: AskCore) -> CoreParts:
    """One hospital's part of the core."""
    rank, modes = asked.inverses[0].shape[1], len(asked.inverses)
    columns = np.indices((rank,) * modes).reshape(modes, -1)
    patients = patient_factor[:, :rank]
    core = np.zeros((rank, columns.shape[1]))
    step = max(rank, 4096 // rank)
    for start in range(0, columns.shape[1], step):
        chosen = columns[:, start : start + step]
        pairs = zip(asked.inverses, chosen, strict=True)
        product = tensor.cells.patient_product([inverse[:, c] for inverse, c in pairs])
        core[:, start : start + step] = patients.T @ product
    return CoreParts(patients.T @ patients, core)


def core_consistency(exchange: Exchange, features: Sequence[np.ndarray]) -> float:
    """Bro and Kiers' core consistency: 100·(1 − ‖G − I‖²/R), I the superdiagonal.

    G = O ×₁A⁽¹⁾⁺ ×₂A⁽²⁾⁺ …; the patients' pseudo-inverse is (ΣA_kᵀA_k)⁻¹A_kᵀ.
    """
    rank, modes = features[0].shape[1], len(features)
    inverses = tuple(np.ascontiguousarray(np.linalg.pinv(factor).T) for factor in features)
    like = CoreParts(np.zeros((rank, rank)), np.zeros((rank, rank**modes)))
    total = exchange.sum("core", AskCore(inverses), like)
    core = np.linalg.pinv(total.patient_gram) @ total.core
    ideal = np.zeros((rank,) * (modes + 1))
    ideal[(np.arange(rank),) * ideal.ndim] = 1.0
    return float(100.0 * (1.0 - ((core - ideal.reshape(rank, -1)) ** 2).sum() / rank))
