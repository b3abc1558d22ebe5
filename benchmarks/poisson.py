"""The Poisson loss beside pyttb's ``cp_apr``: ``python -m benchmarks.poisson``.

An inner step is one update of all rows of one mode. Ours is a damped Newton step with an exact
non-negative solve; of pyttb both its Newton step (``pdnr``) and its multiplicative one (``mu``,
which makes no curvature) are shown. Of ``mu`` it is the difference between calls with more inner
steps and with fewer: setting up, the products of the other modes and the final likelihood do not
count; of ``pdnr`` a whole call. Then how long either takes from one start to the same loss.
"""

from __future__ import annotations

import contextlib
import io
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice

import numpy as np
import pyttb

from tripheno.solver.poisson import PoissonLoss, _column_sums, _stacked
from tripheno.solver.stacked import unit_of, widths_of
from tripheno.tensor import poisson_kernels as kernels
from tripheno.tensor.count_tensor import CountTensor
from tripheno.tensor.factors import unit_columns

SHAPE, RANK, DRAWN = (2_000, 300, 120), 10, 163_000
LEAST = 100.0
OURS, LOOKS = (3, 10, 20), 10  # iterations of ours; looks at theirs, two iterations each


def counts() -> CountTensor:
    """About 160,000 nonzeros of ten planted components."""
    rng = np.random.default_rng(0)
    drawn = rng.gamma(0.3, 1.0, (SHAPE[0], RANK)).ravel()
    places = rng.choice(drawn.size, DRAWN, p=drawn / drawn.sum())
    patient, component = np.divmod(places, RANK)
    cells = [patient]
    for size in SHAPE[1:]:
        column = rng.gamma(0.3, 1.0, (RANK, size)).cumsum(axis=1)
        pick = rng.random(len(places)) * column[component, -1]
        cells.append((column[component] < pick[:, None]).sum(axis=1))
    return CountTensor.from_cells(np.stack(cells, axis=1), np.ones(len(places), int), shape=SHAPE)


def our_steps(tensor: CountTensor, factors: list[np.ndarray]) -> Callable[[], None]:
    """One Newton step of every mode."""
    loss, cells = PoissonLoss(), tensor.written_out
    patients, *features = factors
    model = tuple(unit_columns(factor)[0] for factor in features)
    stacked, offsets = _stacked(model)
    null = loss.null(tensor)

    def steps() -> None:
        rows = patients.copy()
        kernels.fit_rows(
            cells.starts, cells.indices, cells.values, stacked, offsets, _column_sums(model),
            0, tensor.patients, 1, rows,
        )  # fmt: skip
        for n in range(len(model)):
            total = loss.contribution(tensor, [model], [rows], n, unit=unit_of(null))
            loss.step(model, n, loss.sums(total, widths_of([model]), null)[0])

    return steps


def sparse_of(tensor: CountTensor) -> pyttb.sptensor:
    """The same counts as pyttb has them."""
    indices, values = tensor.coordinates()
    return pyttb.sptensor(indices, values.astype(float)[:, None], tensor.shape)


def cp_apr(
    sparse: pyttb.sptensor, start: pyttb.ktensor, algorithm: str, outer: int, inner: int
) -> pyttb.ktensor:
    """So many iterations with so many steps of every mode, none left out because it is small."""
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        return pyttb.cp_apr(
            sparse, RANK, algorithm=algorithm, init=start.copy(), maxiters=outer,
            maxinneriters=inner, stoptol=0.0, printitn=0,
        )[0]  # fmt: skip


def cpu(work: Callable[[], object], repeats: int) -> float:
    """Least CPU seconds of some calls."""
    best = np.inf
    for _ in range(repeats):
        begun = time.process_time()
        work()
        best = min(best, time.process_time() - begun)
    return best


def inner_steps(tensor: CountTensor, factors: list[np.ndarray]) -> dict[str, float]:
    """CPU seconds of one inner step, the mean of all modes."""
    steps, modes = our_steps(tensor, factors), len(factors)
    steps()  # compiled before it is timed
    found = {"ours, Newton": cpu(steps, 5) / modes}
    sparse, start = sparse_of(tensor), pyttb.ktensor([factor.copy() for factor in factors])
    one, six = (cpu(partial(cp_apr, sparse, start, "mu", 1, inner), 2) for inner in (1, 6))
    found["pyttb, `mu`"] = (six - one) / (5 * modes)
    found["pyttb, `pdnr`"] = cpu(partial(cp_apr, sparse, start, "pdnr", 1, 1), 1) / modes
    return found


def our_way(tensor: CountTensor, factors: list[np.ndarray]) -> Iterator[tuple[float, float]]:
    """CPU seconds and the loss after every iteration, patients' rows solved to their end."""
    loss, spent, rows = PoissonLoss(), 0.0, None
    model, null = tuple(unit_columns(factor)[0] for factor in factors[1:]), loss.null(tensor)
    while True:
        begun = time.process_time()
        (rows,) = loss.fit_patients(tensor, [model], None if rows is None else [rows])
        for n in range(len(model)):
            total = loss.contribution(tensor, [model], [rows], n, unit=unit_of(null))
            column, lengths = unit_columns(
                loss.step(model, n, loss.sums(total, widths_of([model]), null)[0])
            )
            model, rows = (*model[:n], column, *model[n + 1 :]), rows * lengths
        spent += time.process_time() - begun
        yield spent, loss.of_patients(tensor, model, rows)


def their_way(tensor: CountTensor, factors: list[np.ndarray]) -> Iterator[tuple[float, float]]:
    """The same of ``mu`` with its default of ten inner steps, after every second iteration."""
    sparse, spent = sparse_of(tensor), 0.0
    model = pyttb.ktensor([factor.copy() for factor in factors])
    while True:
        begun = time.process_time()
        model = cp_apr(sparse, model, "mu", 2, 10)
        spent += time.process_time() - begun
        patients, *features = model.factor_matrices
        pairs = [unit_columns(factor) for factor in features]
        rows = patients * model.weights * np.prod([lengths for _, lengths in pairs], axis=0)
        units = tuple(unit for unit, _ in pairs)
        yield spent, PoissonLoss().of_patients(tensor, units, rows)


def report() -> str:
    """The tables, and whether the gate holds."""
    tensor = counts()
    rng = np.random.default_rng(1)
    factors = [rng.random((size, RANK)) for size in tensor.shape]
    steps = inner_steps(tensor, factors)
    own, _, newton = steps.values()
    rows = [f"| {name} | {1e3 * one:.1f} | {one / own:.0f} |" for name, one in steps.items()]
    ours = list(islice(our_way(tensor, factors), OURS[-1]))
    theirs = list(islice(their_way(tensor, factors), LOOKS))
    lines = []
    for iteration in OURS:
        spent, loss = ours[iteration - 1]
        took = next((seconds for seconds, reached in theirs if reached <= loss), None)
        more = f"{took / spent:.0f}" if took else f"more than {theirs[-1][0] / spent:.0f}"
        lines.append(f"To the loss of our iteration {iteration} `mu` takes {more} times as long.")
    holds = "holds" if newton >= LEAST * own else "does not hold"
    return "\n".join(
        [
            f"Poisson, {tensor.nonzeros:,} nonzeros, rank {RANK}, CPU time of one inner step",
            "",
            "| inner step | milliseconds | times ours |",
            "|---|---:|---:|",
            *rows,
            "",
            *lines,
            f"Newton against Newton at least {LEAST:.0f} times: {holds}.",
        ]
    )


if __name__ == "__main__":
    print(report())
