"""Questions about a finished model, each answered by one sum over the hospitals.

How well unseen counts are predicted, whether the core is consistent: a hospital works on its own
patients and contributes numbers whose shape follows from the rank.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tripheno.exchange.communicator import Communicator
from tripheno.exchange.messages import Contribution
from tripheno.exchange.registry import CORE, RANK, declared, shaped
from tripheno.solver.loss import Loss
from tripheno.tensor.count_tensor import CountTensor

# ── are unseen counts predicted ────────────────────────────────────────────────────────────────


@declared(
    "held-out", "none: two numbers about patients the factors have not seen",
    lambda plan: 2 * plan.evidence,
)  # fmt: skip
@dataclass(frozen=True)
class HeldOut(Contribution):
    """The loss over the codes that were not looked at, and that of no model at all."""

    loss: float
    null_loss: float


def held_out_error(
    federation: Communicator,
    label: str,
    unseen: Mapping[str, CountTensor],
    features: Sequence[np.ndarray],
    rng: np.random.Generator,
    *,
    loss: Loss,
) -> float:
    """The loss over the hospitals' cells at codes not looked at, as a share of that of no model.

    The codes of the last mode are split in two. From one part of a patient's cells the memberships
    are estimated, the other part is predicted, and the other way round. Asked of patients that the
    factors have not seen, it rises with components that fit noise.
    """
    size = len(features[-1])
    part = rng.permutation(size) < size // 2
    error = null = 0.0
    for number, seen in enumerate((part, ~part)):
        total = federation.sum(
            f"{label}held-out/{number}",
            lambda name, seen=seen: HeldOut(  # type: ignore[misc]
                *loss.held_out(unseen[name], tuple(features), seen)
            ),
        ).value
        error, null = error + total.loss, null + total.null_loss
    return error / null if null else 1.0


# ── is the core consistent ────────────────────────────────────────────────────────────────────


@declared(
    "core", "phenotypes × phenotypes × …: how far components work against each other",
    lambda plan: plan.evidence,
)  # fmt: skip
@dataclass(frozen=True)
class CoreParts(Contribution):
    """A_kᵀA_k, and A_kᵀ times the tensor times the inverses: components × components per mode."""

    patient_gram: np.ndarray = shaped(RANK, RANK)
    core: np.ndarray = shaped(RANK, CORE)


def core_parts(
    tensor: CountTensor, patient_factor: np.ndarray, inverses: Sequence[np.ndarray]
) -> CoreParts:
    """One hospital's part of the core."""
    rank, modes = inverses[0].shape[1], len(inverses)
    columns = np.indices((rank,) * modes).reshape(modes, -1)
    patients = patient_factor[:, :rank]
    core = np.zeros((rank, columns.shape[1]))
    step = max(rank, 4096 // rank)
    for at, piece in tensor.pieces():
        weighted = piece.cells.weighted(patients[at])
        for start in range(0, columns.shape[1], step):
            pairs = zip(inverses, columns[:, start : start + step], strict=True)
            product = piece.cells.patient_product([inverse[:, c] for inverse, c in pairs])
            core[:, start : start + step] += weighted.T @ product
    return CoreParts(tensor.cells.patient_gram(patients), core)


def core_consistency(
    federation: Communicator,
    label: str,
    tensors: Mapping[str, CountTensor],
    patients: Mapping[str, np.ndarray],
    features: Sequence[np.ndarray],
) -> float:
    """Bro and Kiers' core consistency: 100·(1 − ‖G − I‖²/R), I the superdiagonal.

    G = O ×₁A⁽¹⁾⁺ ×₂A⁽²⁾⁺ …; the patients' pseudo-inverse is (ΣA_kᵀA_k)⁻¹A_kᵀ.
    """
    rank, modes = features[0].shape[1], len(features)
    inverses = tuple(np.ascontiguousarray(np.linalg.pinv(factor).T) for factor in features)
    total = federation.sum(
        f"{label}core", lambda name: core_parts(tensors[name], patients[name], inverses)
    ).value
    core = np.linalg.pinv(total.patient_gram) @ total.core
    ideal = np.zeros((rank,) * (modes + 1))
    ideal[(np.arange(rank),) * ideal.ndim] = 1.0
    return float(100.0 * (1.0 - ((core - ideal.reshape(rank, -1)) ** 2).sum() / rank))
