"""Does a model foretell counts it has not seen? And does it hold together as a model?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tripheno.tensor.count_tensor import CountTensor
from tripheno.tensor.factors import gram_of_others
from tripheno.tensor.rows import regular, solve_rows


def halves(
    tensors: Mapping[str, CountTensor], rng: np.random.Generator
) -> tuple[dict[str, CountTensor], dict[str, CountTensor]]:
    """Every hospital splits its own patients in two at random; no patient moves."""
    first, second = {}, {}
    for name, tensor in tensors.items():
        order = rng.permutation(tensor.patients)
        middle = tensor.patients // 2
        first[name] = tensor.select_patients(np.sort(order[:middle]))
        second[name] = tensor.select_patients(np.sort(order[middle:]))
    return first, second


def held_out_error(
    tensors: Mapping[str, CountTensor],
    features: Sequence[np.ndarray],
    rng: np.random.Generator,
    *,
    nonnegative: bool,
) -> float:
    """‖O − X‖²/‖O‖² over cells of unseen patients at codes unseen for them.

    The codes of the last mode are split in two. From one part of a new patient's cells the
    memberships are estimated, the other part is foretold, and the other way round. Components that
    fit noise make this error rise. Each hospital contributes two sums.
    """
    size = len(features[-1])
    part = rng.permutation(size) < size // 2
    error = norm = 0.0
    for seen in (part, ~part):
        for tensor in tensors.values():
            parts = _foretell(tensor, features, seen, nonnegative)
            error, norm = error + parts[0], norm + parts[1]
    return error / norm if norm else 1.0


def _foretell(
    tensor: CountTensor, features: Sequence[np.ndarray], seen: np.ndarray, nonnegative: bool
) -> tuple[float, float]:
    """One hospital's squared error and squared norm over the codes not seen."""
    *others, last = features
    known = [*others, last * seen[:, None]]
    hidden = [*others, last * ~seen[:, None]]
    gram, _ = regular(gram_of_others(known))
    rows = solve_rows(tensor.cells.patient_product(known), gram, nonnegative=nonnegative)
    inner = float((rows * tensor.cells.patient_product(hidden)).sum())
    model = float(((rows.T @ rows) * gram_of_others(hidden)).sum())
    counts = tensor.cells.values[~seen[tensor.cells.indices[:, -1]]].astype(np.float64)
    norm = float(counts @ counts)
    return norm - 2.0 * inner + model, norm


def core_consistency(
    tensors: Mapping[str, CountTensor],
    patient_factors: Mapping[str, np.ndarray],
    features: Sequence[np.ndarray],
) -> float:
    """Bro and Kiers' core consistency: 100·(1 − ‖G − I‖²/R), I the superdiagonal.

    G = O ×₁A⁽¹⁾⁺ ×₂A⁽²⁾⁺ …. The patients' pseudo-inverse is (ΣA_kᵀA_k)⁻¹A_kᵀ, so each hospital
    contributes A_kᵀA_k and an array of components × components × …, and no patient's row.
    """
    rank = features[0].shape[1]
    inverses = [np.ascontiguousarray(np.linalg.pinv(factor).T) for factor in features]
    gram = sum(rows.T @ rows for rows in patient_factors.values())
    columns = np.indices((rank,) * len(features)).reshape(len(features), -1)
    core = np.zeros((rank, columns.shape[1]))
    step = max(rank, 4096 // rank)
    for name, tensor in tensors.items():
        for start in range(0, columns.shape[1], step):
            chosen = columns[:, start : start + step]
            pairs = zip(inverses, chosen, strict=True)
            product = tensor.cells.patient_product([inverse[:, c] for inverse, c in pairs])
            core[:, start : start + step] += patient_factors[name].T @ product
    core = np.linalg.pinv(gram) @ core
    ideal = np.zeros((rank,) * (len(features) + 1))
    ideal[(np.arange(rank),) * ideal.ndim] = 1.0
    return float(100.0 * (1.0 - ((core - ideal.reshape(rank, -1)) ** 2).sum() / rank))
