"""One row: one method, one federation, one start, against the central model from that start."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from tripheno.errors import Diverged, TriphenoWarning
from tripheno.evaluation.communication import seconds_at_15_mbps
from tripheno.exchange.keys import from_seed
from tripheno.lab.paper.ledger import Row
from tripheno.lab.paper.plan import CENTRAL, Contender
from tripheno.solver.fit import fit
from tripheno.solver.settings import SolverSettings
from tripheno.solver.solution import Iteration, Solution
from tripheno.study.makers import Maker
from tripheno.study.tokens import by_tokens
from tripheno.tensor.count_tensor import CountTensor
from tripheno.tensor.factors import factor_match_score
from tripheno.vocabulary.axis import Axis


@dataclass(frozen=True)
class ReferenceModel:
    """The central model of a tensor from one start: what every row is compared with."""

    factors: tuple[np.ndarray, ...]
    rmse: float
    seconds: float
    iterations: int
    nonzeros: int
    modes: int

    def pooling_bytes(self) -> int:
        """What sending all cells to one place takes: four bytes an index and a count."""
        return self.nonzeros * 4 * (self.modes + 2)

    def save(self, path: Path) -> None:
        """Keep it for a run that goes on later. Feature factors only: no patient is in it."""
        path.parent.mkdir(parents=True, exist_ok=True)
        numbers = np.array([self.rmse, self.seconds, self.iterations, self.nonzeros])
        part = path.with_name(path.name + ".part")
        with part.open("wb") as stream:
            named = {f"factor{n}": factor for n, factor in enumerate(self.factors)}
            np.savez(stream, numbers=numbers, **named)  # type: ignore[arg-type]
        part.replace(path)

    @classmethod
    def load(cls, path: Path) -> ReferenceModel:
        """As it was kept."""
        with np.load(path, allow_pickle=False) as kept:
            factors = tuple(kept[f"factor{n}"] for n in range(len(kept.files) - 1))
            rmse, seconds, iterations, nonzeros = (float(value) for value in kept["numbers"])
        return cls(factors, rmse, seconds, int(iterations), int(nonzeros), len(factors))


def compute_seconds(solution: Solution) -> float:
    """The busiest hospital, as in the paper; and the steps on totals, which it leaves out."""
    return solution.costs.seconds_slowest_hospital + solution.costs.seconds_shared


def quietly(
    tensors: Mapping[str, CountTensor], settings: SolverSettings, sums: Maker | None = None
) -> tuple[Solution, tuple[int, int]]:
    """A fit whose warnings go into the notes, and the bytes of all hospitals, up and down."""
    federation = None if sums is None else sums(tuple(tensors))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TriphenoWarning)
        solution = fit(tensors, settings, federation)
    sent = [] if federation is None else list(federation.traffic.values())
    return solution, (sum(one.bytes_up for one in sent), sum(one.bytes_down for one in sent))


def central_reference(tensor: CountTensor, settings: SolverSettings) -> ReferenceModel:
    """All patients in one place."""
    solution, _ = quietly({"central": tensor}, replace(settings, method="central"))
    return ReferenceModel(
        solution.factors,
        solution.rmse.nonzeros,
        compute_seconds(solution),
        solution.iterations,
        tensor.nonzeros,
        len(tensor.axes),
    )


def central_row(x: float | str, repeat: int, reference: ReferenceModel, *, pooled: bool) -> Row:
    """The reference as a row; its bytes are the patients' cells, if there is more than one site."""
    sent = reference.pooling_bytes() if pooled else 0
    return Row(
        x, CENTRAL.method, "", repeat, reference.rmse, 0.0, 1.0, reference.seconds,
        seconds_at_15_mbps(sent), 0.0, sent, 0,
    )  # fmt: skip


def method_row(
    x: float | str,
    contender: Contender,
    repeat: int,
    tensors: Mapping[str, CountTensor],
    settings: SolverSettings,
    *,
    reference: ReferenceModel,
    sums: Maker,
    alignment: float,
) -> tuple[Row, dict[str, object]]:
    """A federated method's row, and what there is to say about how it went."""
    chosen = replace(settings, method=contender.method, variant=contender.variant or "corrected")
    try:
        solution, (up, down) = quietly(tensors, chosen, sums)
    except Diverged as fault:  # a result too: `released` may
        nothing = float("nan")
        lost = Row(
            x, contender.method, contender.variant or "", repeat, nothing, None, None,
            nothing, nothing, alignment, 0, 0,
        )  # fmt: skip
        return lost, {"stopped_because": str(fault)}
    gap = (solution.rmse.nonzeros - reference.rmse) / reference.rmse
    row = Row(
        x, contender.method, contender.variant or "", repeat, solution.rmse.nonzeros, gap,
        factor_match_score(solution.factors, reference.factors), compute_seconds(solution),
        seconds_at_15_mbps(up + down), alignment, up, down,
    )  # fmt: skip
    return row, about(solution, tensors)


def about(solution: Solution, tensors: Mapping[str, CountTensor]) -> dict[str, object]:
    """What a row has no column for."""
    return {
        "iterations": solution.iterations,
        "converged": solution.converged,
        "stopped_because": solution.stopped_because,
        "seconds_all_hospitals": round(solution.costs.seconds_all_hospitals, 3),
        "patients": [tensor.patients for tensor in tensors.values()],
    }


def alignment_seconds(tensors: Mapping[str, CountTensor], seed: int) -> float:
    """How long agreeing on axes takes when every hospital knows only the codes it uses."""
    nobody = np.zeros(0, dtype=np.int64)
    lists = {
        name: tensor.select_patients(nobody).on_axes(used_axes(tensor))
        for name, tensor in tensors.items()
    }
    federation, secret = Maker(seed=seed)(tuple(lists)), from_seed(seed, "tokens")
    started = time.perf_counter()
    by_tokens(federation, lists, b"", secret, secret)
    return time.perf_counter() - started


def used_axes(tensor: CountTensor) -> list[Axis]:
    """The axes with the codes that occur, found without listing cells: ones counted per code."""
    found = []
    for n, axis in enumerate(tensor.axes):
        ones = [np.ones((other.size, 1)) for other in tensor.axes]
        patients = np.ones((tensor.patients, 1))
        total = tensor.cells.feature_product(ones, patients, n)[:, 0]
        codes = axis.codes or tuple(str(position) for position in range(axis.size))
        kept = tuple(code for code, used in zip(codes, total > 0, strict=True) if used)
        found.append(Axis(axis.mode, len(kept), kept))
    return found


@dataclass(frozen=True)
class CurvePoint:
    """One line of the error over iterations."""

    x: float
    method: str
    variant: str
    iteration: int
    rmse_nonzeros: float
    bytes: int
    seconds: float


def curve(
    x: float,
    contender: Contender,
    tensors: Mapping[str, CountTensor],
    settings: SolverSettings,
) -> list[dict[str, object]]:
    """The error over nonzeros after every iteration; not timed, for looking costs a pass."""
    variant = contender.variant or "corrected"
    chosen = replace(settings, method=contender.method, variant=variant, track_rmse=True)
    lines: list[Iteration] = []
    with warnings.catch_warnings(), suppress(Diverged):  # the curve ends where the run did
        warnings.simplefilter("ignore", TriphenoWarning)
        fit(tensors, chosen, watch=lines.append)
    pooling = sum(t.nonzeros * 4 * (len(t.axes) + 2) for t in tensors.values())
    points = [
        CurvePoint(
            x,
            contender.method,
            contender.variant or "",
            line.iteration,
            float(line.rmse or np.nan),
            pooling if contender == CENTRAL else line.bytes,
            line.seconds,
        )
        for line in lines
    ]
    return [asdict(point) for point in points]
