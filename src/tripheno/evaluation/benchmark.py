"""How fast are we, as ratios measured in one run on one machine."""

from __future__ import annotations

import os
import platform
import resource
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa

from tripheno.errors import TriphenoWarning
from tripheno.evaluation import benchmark_kernels as kernels
from tripheno.evaluation import benchmark_peers as peers
from tripheno.evaluation.simulation import share_out
from tripheno.records.events import CountingRule
from tripheno.records.synthetic import synthetic_network
from tripheno.records.synthetic_presets import seed_paper_settings
from tripheno.solver.fit import fit
from tripheno.solver.settings import Method, SolverSettings
from tripheno.tensor.block_building import in_blocks
from tripheno.tensor.cells import Cells
from tripheno.tensor.count_tensor import CountTensor
from tripheno.tensor.factors import gram_of_others
from tripheno.tensor.threads import in_chunks, limited_to
from tripheno.tensor.warm_up import warm_up

RANK = 10
RULE = CountingRule(("medication", "lab"), "visit")
Work = Callable[[], Any]
Say = Callable[[str], None]


@dataclass(frozen=True)
class BenchmarkPlan:
    """What is measured, and how long it may take."""

    nonzeros: tuple[int, ...] = (15_000_000, 50_000_000)
    scale: float = 1.0  # of the number of patients
    repeats: int = 5
    iterations: int = 100
    ranks: tuple[int, ...] = (3, 10, 20, 50)
    hospitals: tuple[int, ...] = (1, 3, 10)
    with_pyttb: bool = True


QUICK = BenchmarkPlan((15_000_000,), scale=0.1, repeats=5, iterations=10, hospitals=(3,))


def interleaved(works: Mapping[str, Work], repeats: int) -> dict[str, dict[str, float]]:
    """Least wall and CPU seconds of each, all taken in turn so that none has the quiet hour."""
    best = {name: {"wall": np.inf, "cpu": np.inf} for name in works}
    for _ in range(repeats):
        for name, work in works.items():
            wall, cpu = time.perf_counter(), time.process_time()
            work()
            best[name]["wall"] = min(best[name]["wall"], time.perf_counter() - wall)
            best[name]["cpu"] = min(best[name]["cpu"], time.process_time() - cpu)
    return best


def benchmark(plan: BenchmarkPlan, say: Say) -> dict[str, Any]:
    """Every figure of the plan, ready for JSON."""
    found: dict[str, Any] = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "load_before": os.getloadavg()[0],
        "rank": RANK,
        "warm_up_seconds": warm_up(RANK, say),
        "peaks": _peaks(plan.repeats),
        "tensors": [],
    }
    for nonzeros in plan.nonzeros:
        for windows, visits in (("day-like windows", 5.0), ("visits", 1.35)):
            say(f"{windows}: making {nonzeros * plan.scale / 1e6:.1f}M cells")
            events = _events(nonzeros, visits, plan.scale)
            found["tensors"].append({"windows": windows, **_tensor(events, plan, found, say)})
    found["peak_memory_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return found


def _peaks(repeats: int) -> dict[str, float]:
    """The best this machine gives at this hour: multiply-adds and memory, on all cores."""
    cores = os.cpu_count() or 1
    everyone = [(k, k + 1) for k in range(cores)]
    out = np.empty((cores, 48))
    parts = [[np.zeros(4_000_000) for _ in range(3)] for _ in range(cores)]
    steps = 2_000_000
    best = interleaved(
        {
            "fma": lambda: in_chunks(
                everyone, lambda k, _: kernels.multiply_in_registers(steps, out[k])
            ),
            "triad": lambda: in_chunks(everyone, lambda k, _: kernels.triad(*parts[k])),
        },
        2 * repeats,
    )
    return {
        "gflops": cores * steps * kernels.FLOPS_PER_STEP / best["fma"]["wall"] / 1e9,
        "gbytes": cores * 3 * 8 * 4_000_000 / best["triad"]["wall"] / 1e9,
    }


def _events(nonzeros: int, visits: float, scale: float) -> pa.Table:
    """One hospital's events; fewer visits hold more codes each, for about as many cells."""
    settings = seed_paper_settings(nonzeros, hospitals=1, scale=scale)
    if visits != settings.visits_per_patient:
        noise = settings.noise_per_visit * 1.65
        settings = replace(settings, visits_per_patient=visits, noise_per_visit=noise)
    return synthetic_network(settings).hospitals[0].events


def _tensor(
    events: pa.Table, plan: BenchmarkPlan, found: dict[str, Any], say: Say
) -> dict[str, Any]:
    """All figures of one tensor."""
    tensor = CountTensor.from_events(events, rule=RULE)
    capped = CountTensor.from_events(events, rule=replace(RULE, cap=3))
    stored = tensor.cells
    plain = Cells(stored.starts, stored.indices, stored.values, stored.sizes)
    forms = {"blocks": in_blocks(plain), "events": stored, "events, cap 3": capped.cells}
    rng = np.random.default_rng(0)
    features = [rng.random((size, RANK)) for size in tensor.shape[1:]]
    gram = gram_of_others(features)
    works = {name: _iteration(cells, features, gram) for name, cells in forms.items()}
    works["scipy fibre-CSR"] = peers.scipy_fibres(tensor, features, gram)
    say(f"kernels on {tensor.nonzeros:,} cells")
    seconds = interleaved(works, plan.repeats)
    seconds |= interleaved({"coordinates": _iteration(plain, features, gram)}, 1)
    blocks = forms["blocks"]
    seconds |= interleaved(
        {
            "non-negative": _iteration(blocks, features, gram, nonnegative=True),
            "RMSE": lambda: blocks.at_cells(features, blocks.patient_product(features)),
            "one thread": _alone(works["blocks"]),
        },
        plan.repeats,
    )
    pyttb = peers.pyttb_iteration(tensor, features) if plan.with_pyttb else None
    if pyttb is not None and tensor.nonzeros < 20_000_000:
        say("pyttb")
        seconds |= interleaved({"pyttb": pyttb}, 1)
    few = tensor.select_patients(np.arange(30)).drop_unused()
    tensorly = peers.tensorly_iteration(few, RANK)
    if tensorly is not None:
        own = [rng.random((size, RANK)) for size in few.shape[1:]]
        ours = _iteration(few.cells, own, gram_of_others(own))
        few_seconds = interleaved({"TensorLy": tensorly, "blocks, 30 patients": ours}, plan.repeats)
        seconds |= few_seconds
    gflops = 4 * RANK * tensor.nonzeros / seconds["blocks"]["wall"] / 1e9
    return {
        "shape": tensor.shape,
        "nonzeros": tensor.nonzeros,
        "events": events.num_rows,
        "seconds": seconds,
        "bytes_per_nonzero": {
            name: getattr(cells, "nbytes", 0) / tensor.nonzeros for name, cells in forms.items()
        },
        "share_of_peak": gflops / found["peaks"]["gflops"],
        "ranks": _ranks(blocks, plan),
        "building": _building(events, say),
        "fits": _fits(tensor, plan, say),
    }


def _iteration(
    cells: Any, features: list[np.ndarray], gram: np.ndarray, *, nonnegative: bool = False
) -> Work:
    """All products of one iteration: the patients with the first mode, then the second."""

    def work() -> None:
        patients, _ = cells.update_patients(features, gram, nonnegative=nonnegative)
        cells.feature_product(features, patients, 1)

    work()  # what is laid out on first use belongs to no iteration
    return work


def _alone(work: Work) -> Work:
    def limited() -> None:
        with limited_to(1):
            work()

    return limited


def _ranks(cells: Any, plan: BenchmarkPlan) -> dict[str, float]:
    works = {}
    for rank in plan.ranks:
        rng = np.random.default_rng(rank)
        features = [rng.random((size, rank)) for size in cells.sizes]
        works[str(rank)] = _iteration(cells, features, gram_of_others(features))
    return {rank: best["wall"] for rank, best in interleaved(works, plan.repeats).items()}


def _building(events: pa.Table, say: Say) -> dict[str, dict[str, float]]:
    """Events to tensor, against the same join in DuckDB."""
    works: dict[str, Work] = {"tripheno": lambda: CountTensor.from_events(events, rule=RULE)}
    join = peers.duckdb_join(events, ("medication", "lab"))
    if join is not None:
        works["DuckDB"] = join
    say("building")
    return interleaved(works, 2)


def _fits(tensor: CountTensor, plan: BenchmarkPlan, say: Say) -> list[dict[str, Any]]:
    """Whole fits, every one with the same number of iterations."""
    runs: list[tuple[Method, int, bool]] = [("central", 1, True), ("central", 1, False)]
    runs += [(method, k, False) for k in plan.hospitals for method in ("exact", "trip")]
    lines = []
    for method, hospitals, track in runs:
        say(f"{method} over {hospitals} hospital(s), {plan.iterations} iterations")
        tensors = {"all": tensor}
        if hospitals > 1:
            tensors = share_out(tensor, hospitals, None, np.random.default_rng(0))
        settings = SolverSettings(
            RANK, method=method, max_iter=plan.iterations, tol=1e-300, track_rmse=track
        )
        wall, cpu = time.perf_counter(), time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TriphenoWarning)
            solution = fit(tensors, settings)
        lines.append(
            {
                "method": method,
                "hospitals": hospitals,
                "rmse_each_iteration": track,
                "iterations": solution.iterations,
                "wall": time.perf_counter() - wall,
                "cpu": time.process_time() - cpu,
            }
        )
    return lines
