"""Was somebody, whose record is known, among the patients? Members read it off the totals.

log P(L | x took part) − log P(L | not) = (wᵀL − ½wᵀw)/n, with L = M − nμ what all totals of a step
lean to, w = m_x − μ what x would add, and both in the metric (Σ + λ)⁻¹ of people like them, none of
whom took part. Every start of a tournament and every mode has a total of its own, and all of them
say something about the same people: the more there are, the more is found. The null control
compares two groups of strangers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.sparse import csr_array

from tripheno.lab.attacks.finding import PEER, SHIPPED, Finding
from tripheno.lab.attacks.people import area_under_curve
from tripheno.solver.starts import uniform_start
from tripheno.tensor.count_tensor import CountTensor, pooled
from tripheno.tensor.factors import gram_of_others
from tripheno.tensor.rows import regular

SIZES = (400, 2_250, 38_000)
EXPECTED_AREA = {400: 0.90, 2_250: 0.72, 38_000: 0.62}  # as docs/privacy.md says
STRANGERS, REFERENCE = 800, 3_000
RANK = 10
STARTS = 3  # of a tournament, which has 16
RIDGE = 0.3  # of directions in which the reference, of unit spread, tells too little
BLOCK = 1_000  # patients

Network = Callable[[int], Mapping[str, CountTensor]]
"""``hospitals = network(patients)``: three hospitals on common axes with so many patients."""


def tracing(network: Network, size: int, seed: int) -> Finding:
    """How well members are told from strangers, by what the totals of a few starts lean to."""
    alike = max(REFERENCE, size)
    everybody = pooled(list(network(size + STRANGERS + alike).values()))
    order = np.random.default_rng(seed).permutation(everybody.patients)
    taking_part, strangers, reference = (
        everybody.select_patients(np.sort(some))
        for some in np.split(order, [size, size + STRANGERS])
    )
    starts = [uniform_start(everybody.axes, RANK, seed + n) for n in range(STARTS)]
    middle = _total(reference, starts) / reference.patients
    lean = _total(taking_part, starts) - size * middle
    score = _scores(_added(reference, starts, REFERENCE) - middle, lean)
    inside, outside = (
        score(_added(some, starts, STRANGERS) - middle) for some in (taking_part, strangers)
    )
    area, null = area_under_curve(inside, outside), area_under_curve(outside[::2], outside[1::2])
    documented = EXPECTED_AREA.get(size, 1.0)
    return Finding(
        f"membership among {size:,} patients, whitened tracing", PEER, SHIPPED, "AUC", area.value,
        area.low > 0.5, area.low, area.high, 0.5, null.value, said=area.value <= documented,
        expect=f"at most {documented:.2f}; less the more patients there are",
    )  # fmt: skip


def _scores(rows: np.ndarray, lean: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """The log-likelihood ratio of people, times n, as the reference's rows tell how people differ.

    (Σ + λ)⁻¹v = (v − Xᵀ(nλ + XXᵀ)⁻¹Xv)/λ: there are fewer people than entries.
    """
    spread = np.sqrt((rows**2).mean(axis=0))
    seen = spread > 0.0
    rows = rows[:, seen] / spread[seen]
    inner = rows @ rows.T / len(rows)
    inner[np.diag_indices_from(inner)] += RIDGE
    factor = cho_factor(inner, overwrite_a=True)

    def whitened(some: np.ndarray) -> np.ndarray:
        back = cho_solve(factor, rows @ some.T) / len(rows)
        return np.asarray((some - back.T @ rows) / RIDGE)

    leaning = whitened((lean[seen] / spread[seen])[None])[0]

    def score(added: np.ndarray) -> np.ndarray:
        own = added[:, seen] / spread[seen]
        return np.asarray(own @ leaning - 0.5 * (own * whitened(own)).sum(axis=1))

    return score


def _total(tensor: CountTensor, starts: list[tuple[np.ndarray, ...]]) -> np.ndarray:
    blocks = range(0, tensor.patients, BLOCK)
    parts = [
        tensor.select_patients(np.arange(at, min(at + BLOCK, tensor.patients))) for at in blocks
    ]
    return np.asarray(sum(_added(part, starts, BLOCK).sum(axis=0) for part in parts))


def _added(tensor: CountTensor, starts: list[tuple[np.ndarray, ...]], people: int) -> np.ndarray:
    """What each of the first patients adds to every mode's MTTKRP and to the Gram matrices."""
    first = tensor.select_patients(np.arange(min(people, tensor.patients)))
    return np.concatenate([part for one in starts for part in _pieces(first, one)], axis=1)


def _pieces(tensor: CountTensor, features: tuple[np.ndarray, ...]) -> list[np.ndarray]:
    gram, _ = regular(gram_of_others(features))
    own, _ = tensor.cells.update_patients(features, gram, nonnegative=True, guess=None)
    indices, values = tensor.coordinates()
    weighed, cells = values[:, None] * own[indices[:, 0]], np.arange(len(values) + 1)
    above = np.triu_indices(own.shape[1])
    found = [own[:, above[0]] * own[:, above[1]]]
    for mode, axis in enumerate(tensor.axes):
        products = weighed.copy()
        for n, factor in enumerate(features):
            if n != mode:
                products *= factor[indices[:, n + 1]]
        places = indices[:, 0].astype(np.int64) * axis.size + indices[:, mode + 1]
        shape = (tensor.patients * axis.size, len(values))
        sums = csr_array((np.ones(len(values)), places, cells), shape=shape[::-1]).T @ products
        found.append(np.asarray(sums).reshape(tensor.patients, -1))
    return found
