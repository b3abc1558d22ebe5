"""Poisson (Kullback–Leibler) loss, Σ m − x + x log(x/m): counts as counts.

The means' sum comes from column sums, all else from nonzero cells. Given the other modes the rows
of a mode are separate convex problems: a patient's is solved at home, a code's takes one damped
Newton step from the total.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tripheno.exchange.messages import Contribution
from tripheno.exchange.registry import (
    CODES,
    COLUMNS,
    MODELS,
    TRIANGLES,
    MessagePlan,
    declared,
    shaped,
)
from tripheno.solver.loss import Loss, Sums
from tripheno.solver.penalties import FactorPenalty
from tripheno.solver.stacked import LONGEST, unit_of
from tripheno.solver.starts import Factors
from tripheno.tensor import poisson_kernels as kernels
from tripheno.tensor.cells import Cells
from tripheno.tensor.count_tensor import CountTensor
from tripheno.tensor.poisson_kernels import LEAST
from tripheno.tensor.shards import at_shards
from tripheno.tensor.threads import in_chunks, patient_chunks, sum_over_chunks

SMALLEST = 1e-7  # of a code's largest entry: one at zero could never explain a count
SHRINKS = 0.1  # to this share of itself an entry may fall when a step is lengthened
LEAST_NULL = 1e-3  # per count: what no model loses at least, where all cells are alike
MOST_STEPS = 40  # of a patient's row; five or so are usual
FLAT = 0.01  # of a prediction is spread over all hidden cells: no count is impossible


def _times(plan: MessagePlan) -> int:
    if plan.loss != "poisson":
        return 0
    return (plan.fits * (LONGEST + plan.iterations) + plan.resampled) * len(plan.modes)


@declared(
    "poisson-models", "codes of one mode × columns of several models, sums over all patients",
    _times,
)  # fmt: skip
@dataclass(frozen=True)
class PoissonSums(Contribution):
    """Per code Σ w x c/m and the lower triangle of Σ w x ccᵀ/m²; Σ w aᵢ; Σ w(x log(x/m) − x).

    c are the components' parts of a cell's mean m, so that no number is larger than the counts of
    its code: a message fits its scale, and a rare code keeps its digits.
    """

    slopes: np.ndarray = shaped(CODES, COLUMNS)
    curves: np.ndarray = shaped(CODES, TRIANGLES)
    patient_sums: np.ndarray = shaped(COLUMNS)
    logs: np.ndarray = shaped(MODELS)


@dataclass(frozen=True)
class PoissonLoss(Loss):
    """Factors are non-negative."""

    smallest = 10.0 * SMALLEST

    def inside(self, point: Factors, found: Factors) -> Factors:
        """A code at zero in all components could not explain its counts."""
        return tuple(np.maximum(a, SHRINKS * b) for a, b in zip(point, found, strict=True))

    def null(self, tensor: CountTensor) -> float:
        """Every patient's counts spread over all cells alike; something even where they are.

        The numbers of messages are shares of it.
        """
        loss, counts = _spread_evenly(tensor)
        return float(max(loss, LEAST_NULL * counts))

    def fit_patients(
        self,
        tensor: CountTensor,
        models: Sequence[Factors],
        before: Sequence[np.ndarray] | None = None,
    ) -> list[np.ndarray]:
        """Newton steps to the end, from the rows before or from equal shares of the counts."""
        return _fitted(tensor, models, before)

    def contribution(
        self,
        tensor: CountTensor,
        models: Sequence[Factors],
        patients: Sequence[np.ndarray],
        n: int,
        *,
        resampling: np.ndarray | None = None,
        unit: float = 1.0,
    ) -> PoissonSums:
        """The sums of every model, one after the other."""
        found = _contributed(tensor, models, patients, n, resampling)
        return PoissonSums(*(part / unit for part in found))

    def held_out(
        self, tensor: CountTensor, factors: Factors, seen: np.ndarray
    ) -> tuple[float, float]:
        """Rows from the seen codes; the loss of what they predict for the others, and its null."""
        indices, values = tensor.coordinates()
        shown = seen[indices[:, -1]]
        known, hidden = (
            CountTensor.from_cells(
                indices[part], values[part], shape=tensor.shape, axes=tensor.axes
            )
            for part in (shown, ~shown)
        )
        *others, last = factors
        (rows,) = self.fit_patients(known, [(*others, last * seen[:, None])])
        model = (*others, last * ~seen[:, None])
        flat = tuple(
            np.column_stack([factor, np.ones(len(factor)) if n < len(others) else ~seen])
            for n, factor in enumerate(model)
        )
        means = rows * _column_sums(model)
        even = means.sum(axis=1) / max(float(_column_sums(flat)[-1]), 1.0)
        mixed = np.column_stack([(1.0 - FLAT) * rows, FLAT * even])
        return self.of_patients(hidden, flat, mixed), self.null(hidden)

    def sums(self, total: PoissonSums, widths: Sequence[int], null: float) -> list[Sums]:
        """Slopes, curves, Σ aᵢ and Σ x log(x/m) − x of every model."""
        unit, found, column, place = unit_of(null), [], 0, 0
        for s, width in enumerate(widths):
            triangle = width * (width + 1) // 2
            columns = slice(column, column + width)
            found.append(
                {
                    "slopes": total.slopes[:, columns] * unit,
                    "curves": total.curves[:, place : place + triangle] * unit,
                    "patient_sums": total.patient_sums[columns] * unit,
                    "logs": total.logs[s] * unit,
                }
            )
            column, place = column + width, place + triangle
        return found

    def step(
        self, model: Factors, n: int, sums: Sums, penalty: FactorPenalty | None = None
    ) -> np.ndarray:
        """One damped Newton step of every code's row, in shares of its entries."""
        del penalty  # settings refuse this loss with any
        factor = _lifted(model[n])
        times = np.empty_like(factor)
        slopes, curves = (np.ascontiguousarray(sums[name]) for name in ("slopes", "curves"))
        means = factor * self._means(model, n, sums)
        kernels.newton_rows(slopes, curves, means, np.ones_like(factor), times)
        return _lifted(factor * times)

    def value(self, model: Factors, n: int, sums: Sums) -> float:
        """Σ_r (Σ_i a_ir) Π_n Σ_j A_jr + Σ x log(x/m) − x."""
        del n
        return float(sums["patient_sums"] @ _column_sums(model) + sums["logs"])

    def gradient(self, model: Factors, n: int, sums: Sums) -> np.ndarray:
        """Column sums of the others less Σ (x/m)π."""
        return np.asarray(self._means(model, n, sums) - self.pull(model, n, sums))

    def pull(self, model: Factors, n: int, sums: Sums) -> np.ndarray:
        """Σ (x/m)π."""
        return np.asarray(sums["slopes"] / np.maximum(_lifted(model[n]), LEAST))

    def curvature(self, model: Factors, n: int, sums: Sums, move: np.ndarray) -> float:
        """Σ_j d_jᵀ (Σ (x/m²)ππᵀ) d_j."""
        move = move / np.maximum(_lifted(model[n]), LEAST)
        lower = np.tril_indices(move.shape[1])
        twice = np.where(lower[0] == lower[1], 1.0, 2.0)
        return float((sums["curves"] * twice * move[:, lower[0]] * move[:, lower[1]]).sum())

    def removal_costs(self, model: Factors, n: int, sums: Sums, factor: np.ndarray) -> np.ndarray:
        """½ Σ x (share of the mean)²: the counts that no other column explains weigh most."""
        del factor
        diagonal = np.cumsum(np.arange(1, model[n].shape[1] + 1)) - 1
        return np.asarray(0.5 * sums["curves"][:, diagonal].sum(axis=0))

    def _means(self, model: Factors, n: int, sums: Sums) -> np.ndarray:
        """By how much all means together grow with an entry of the factor."""
        return np.asarray(sums["patient_sums"] * _column_sums(model, n))


def _column_sums(factors: Sequence[np.ndarray], but: int | None = None) -> np.ndarray:
    """Π over modes (all but one) of Σ_j A_jr."""
    sums = [np.asarray(f).sum(axis=0) for n, f in enumerate(factors) if n != but]
    return np.asarray(np.prod(sums, axis=0))


def _lifted(factor: np.ndarray) -> np.ndarray:
    """The factor with no entry at zero beside another of its code."""
    return np.asarray(np.maximum(factor, SMALLEST * factor.max(axis=1, keepdims=True)))


def _stacked(model: Factors) -> tuple[np.ndarray, np.ndarray]:
    """All modes' rows in one array; and where each mode begins."""
    offsets = np.concatenate([[0], np.cumsum([len(f) for f in model])[:-1]]).astype(np.int64)
    return np.vstack([_lifted(factor) for factor in model]), offsets


@at_shards("sum", "sum")
def _spread_evenly(tensor: CountTensor) -> tuple[float, float]:
    """The loss of every patient's counts spread over all cells alike, and how many they are."""
    cells = tensor.written_out
    counts = cells.values.astype(np.float64)
    owner = tensor.patient_of_cell
    mean = np.bincount(owner, counts, tensor.patients) / np.prod(tensor.shape[1:])
    weights = cells.each_weight[owner]
    loss = weights @ (counts * np.log(counts / mean[owner]))
    return float(loss), float(weights @ counts)


@at_shards("rows", rows=("before",))
def _fitted(
    tensor: CountTensor, models: Sequence[Factors], before: Sequence[np.ndarray] | None
) -> list[np.ndarray]:
    cells, found = tensor.written_out, []
    counts = np.bincount(tensor.patient_of_cell, cells.values.astype(np.float64), tensor.patients)
    for s, model in enumerate(models):
        stacked, offsets = _stacked(model)
        sums = _column_sums(model)
        if before is None:
            rows = np.outer(counts, 1.0 / (len(sums) * np.maximum(sums, 1e-300)))
        else:
            least = SMALLEST * before[s].max(axis=1, keepdims=True)
            rows = np.maximum(before[s], least)
        _fit_rows(cells, stacked, offsets, sums, rows)
        found.append(rows)
    return found


@at_shards("sum", "sum", "sum", "sum", rows=("patients", "resampling"))
def _contributed(
    tensor: CountTensor,
    models: Sequence[Factors],
    patients: Sequence[np.ndarray],
    n: int,
    resampling: np.ndarray | None,
) -> tuple[np.ndarray, ...]:
    """Slopes, curves, Σ w aᵢ and logs, the models' beside each other."""
    weights = tensor.cells.each_weight
    found = []
    for s, (model, rows) in enumerate(zip(models, patients, strict=True)):
        own = weights if resampling is None else weights * resampling[:, s]
        slopes, curves, logs = _sums(tensor, model, rows, own, n)
        found.append((slopes, curves, own @ rows, np.array([logs])))
    return tuple(np.hstack(same) for same in zip(*found, strict=True))


def _sums(
    tensor: CountTensor, model: Factors, patients: np.ndarray, weights: np.ndarray, n: int
) -> tuple[np.ndarray, np.ndarray, float]:
    cells, (rows, rank) = tensor.written_out, model[n].shape
    stacked, offsets = _stacked(model)
    patients = np.ascontiguousarray(patients)
    shapes = ((rows, rank), (rows, rank * (rank + 1) // 2))
    cut, end = rows * rank, rows * rank + shapes[1][0] * shapes[1][1]

    def work(first: int, last: int, part: np.ndarray) -> None:
        kernels.poisson_sums(
            cells.starts, cells.indices, cells.values, stacked, offsets, patients, weights, n,
            first, last, part[:cut].reshape(shapes[0]), part[cut:end].reshape(shapes[1]),
            part[end:],
        )  # fmt: skip

    total = sum_over_chunks(patient_chunks(cells.starts, max(cells.sizes) * rank), end + 1, work)
    factor, lower = _lifted(model[n]), np.tril_indices(rank)
    slopes = total[:cut].reshape(shapes[0]) * factor
    curves = total[cut:end].reshape(shapes[1]) * factor[:, lower[0]] * factor[:, lower[1]]
    return slopes, curves, float(total[end])


def _fit_rows(
    cells: Cells, stacked: np.ndarray, offsets: np.ndarray, sums: np.ndarray, rows: np.ndarray
) -> None:
    in_chunks(
        patient_chunks(cells.starts),
        lambda first, last: kernels.fit_rows(
            cells.starts, cells.indices, cells.values, stacked, offsets, sums,
            first, last, MOST_STEPS, rows,
        ),
    )  # fmt: skip
