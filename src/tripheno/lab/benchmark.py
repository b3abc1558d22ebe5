"""How fast are we, as ratios measured in one run on one machine."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from tripheno.lab import benchmark_kernels as kernels
from tripheno.lab import benchmark_peers as peers
from tripheno.lab.benchmark_building import building
from tripheno.lab.benchmark_fits import TimedFit, fits
from tripheno.lab.benchmark_gates import gates
from tripheno.lab.synthetic.network import synthetic_network
from tripheno.lab.synthetic.presets import seed_paper_settings
from tripheno.records.events import CountingRule
from tripheno.tensor.block_building import in_blocks
from tripheno.tensor.cells import Cells
from tripheno.tensor.count_tensor import CountTensor
from tripheno.tensor.factors import gram_of_others, unit_columns
from tripheno.tensor.rows import regular, solve_rows
from tripheno.tensor.threads import in_chunks, limited_to
from tripheno.tensor.warm_up import warm_up

RANK = 10
RULE = CountingRule(("medication", "lab"), "visit")
Work = Callable[[], Any]
Say = Callable[[str], None]


@dataclass(frozen=True)
class BenchmarkCase:
    """One synthetic hospital of the seed paper's size, and what is measured on it."""

    name: str
    windows: str
    visits: float  # per patient
    nonzeros: int  # of the seed's tensors, whose background this one has
    busier: float = 1.0  # times as many background codes in a visit
    runs: tuple[TimedFit, ...] = ()
    ranks: tuple[int, ...] = ()
    pyttb: bool = False
    coordinates: bool = False  # scipy, and our own cells one by one
    building: bool = False


DAYS, VISITS = "day-like windows", "visits"
FITS = (
    TimedFit("central"),
    TimedFit("central", precision="single"),
    TimedFit("central", track_rmse=True),
    TimedFit("exact", 3),
    TimedFit("trip", 3),
)


@dataclass(frozen=True)
class BenchmarkPlan:
    """What is measured, and how long it may take."""

    cases: tuple[BenchmarkCase, ...] = (
        BenchmarkCase(
            "t15", DAYS, 5.0, 15_000_000, runs=(*FITS, TimedFit("exact", 10), TimedFit("trip", 10)),
            ranks=(3, 10, 20, 50, 200), pyttb=True, coordinates=True, building=True,
        ),
        BenchmarkCase("v15", VISITS, 1.35, 15_000_000, 1.65, coordinates=True, building=True),
        BenchmarkCase("t50", DAYS, 5.0, 50_000_000, runs=FITS, building=True),
        BenchmarkCase("v50", VISITS, 1.35, 50_000_000, 1.65, runs=FITS, building=True),
        BenchmarkCase("v200", VISITS, 1.35, 50_000_000, 4.2, runs=(TimedFit("central"),)),
    )  # fmt: skip
    scale: float = 1.0  # of the number of patients
    repeats: int = 5
    iterations: int = 100


QUICK = BenchmarkPlan(
    (
        BenchmarkCase(
            "t15",
            DAYS,
            5.0,
            15_000_000,
            runs=FITS,
            ranks=(3, 10, 50),
            coordinates=True,
            building=True,
        ),
        BenchmarkCase(
            "v50", VISITS, 1.35, 50_000_000, 1.65, runs=(TimedFit("central"),), pyttb=True
        ),
        BenchmarkCase("v200", VISITS, 1.35, 50_000_000, 4.2),
    ),
    scale=0.1,
    iterations=20,
)


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


def measured(plan: BenchmarkPlan, say: Say) -> Iterator[dict[str, Any]]:
    """The figures so far, after each case: what was measured is kept if the rest is not."""
    found: dict[str, Any] = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "load_before": os.getloadavg()[0],
        "rank": RANK,
        "scale": plan.scale,
        "warm_up_seconds": warm_up(RANK, say),
        "peaks": _peaks(plan.repeats),
        "tensors": {},
    }
    for case in plan.cases:
        # the best of several: a core that something else holds for a while is no peak
        again = _peaks(plan.repeats)
        found["peaks"] = {name: max(best, again[name]) for name, best in found["peaks"].items()}
        say(f"{case.name}: making {case.windows}")
        found["tensors"][case.name] = _case(case_events(case, plan.scale), case, plan, say)
        for tensor in found["tensors"].values():
            tensor["share_of_peak"] = tensor["gflops"] / found["peaks"]["gflops"]
        found["gates"] = gates(found)
        import resource  # noqa: PLC0415  Windows has none, and no `bench`

        found["peak_memory_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        yield found


def _peaks(repeats: int) -> dict[str, float]:
    """The best this machine gives at this hour: multiply-adds and memory, on all cores."""
    cores = os.cpu_count() or 1
    everyone = [(k, k + 1) for k in range(cores)]
    out = np.full((cores, 4 * kernels.CHAINS), 0.5)
    parts = [[np.zeros(4_000_000) for _ in range(3)] for _ in range(cores)]
    steps = 5_000_000
    best = interleaved(
        {
            "fma": lambda: in_chunks(
                everyone, lambda k, _: kernels.multiply_in_registers(steps, out[k])
            ),
            "triad": lambda: in_chunks(everyone, lambda k, _: kernels.triad(*parts[k])),
        },
        2 * repeats,
    )
    flops = cores * steps * kernels.FLOPS_PER_STEP
    return {
        "gflops": flops / best["fma"]["wall"] / 1e9,
        "gflops_of_a_core": flops / best["fma"]["cpu"] / 1e9,
        "gbytes": cores * 3 * 8 * 4_000_000 / best["triad"]["wall"] / 1e9,
    }


def case_events(case: BenchmarkCase, scale: float) -> pa.Table:
    """One hospital's events; fewer visits hold more codes each, for about as many cells."""
    settings = seed_paper_settings(case.nonzeros, hospitals=1, scale=scale)
    noise = settings.noise_per_visit * case.busier
    settings = replace(settings, visits_per_patient=case.visits, noise_per_visit=noise)
    return synthetic_network(settings).hospitals[0].events


def _case(events: pa.Table, case: BenchmarkCase, plan: BenchmarkPlan, say: Say) -> dict[str, Any]:
    """All figures of one tensor."""
    tensor = CountTensor.from_events(events, rule=RULE)
    say(f"{case.name}: {tensor.nonzeros:,} cells of {events.num_rows:,} events")
    capped = CountTensor.from_events(events, rule=replace(RULE, cap=3))
    stored = tensor.cells
    plain = Cells(stored.starts, stored.indices, stored.values, stored.sizes)
    forms = {"blocks": in_blocks(plain), "events": stored, "events, cap 3": capped.cells}
    seconds = _kernels(tensor, plain, forms, case, plan)
    if case.pyttb:
        say(f"{case.name}: pyttb")
        seconds |= _pyttb(tensor)
    result = {
        "windows": case.windows,
        "shape": tensor.shape,
        "nonzeros": tensor.nonzeros,
        "events": events.num_rows,
        "seconds": seconds,
        "bytes_per_nonzero": {
            name: getattr(cells, "nbytes", 0) / tensor.nonzeros for name, cells in forms.items()
        },
        "gflops": 4 * RANK * tensor.nonzeros / seconds["blocks"]["wall"] / 1e9,  # useful ones
        "ranks": _ranks(forms["blocks"], case, plan),
        "building": building(events, plan.repeats, say) if case.building else {},
    }
    del plain, forms, capped
    return {**result, "fits": fits(tensor, case.runs, RANK, plan.iterations, say)}


def _kernels(
    tensor: CountTensor,
    plain: Cells,
    forms: Mapping[str, Any],
    case: BenchmarkCase,
    plan: BenchmarkPlan,
) -> dict[str, dict[str, float]]:
    """Every form of storage beside each other, and beside what one would otherwise take."""
    rng = np.random.default_rng(0)
    features = [rng.random((size, RANK)) for size in tensor.shape[1:]]
    gram = gram_of_others(features)
    blocks = forms["blocks"]
    works = {name: _iteration(cells, features, gram) for name, cells in forms.items()}
    single = [factor.astype(np.float32) for factor in features]
    works["blocks, float32"] = _iteration(blocks, single, gram)
    works["blocks, one thread"] = _alone(works["blocks"])
    works["blocks, non-negative"] = _iteration(blocks, features, gram, nonnegative=True)
    patients = blocks.patient_product(features)
    works["RMSE over nonzeros"] = lambda: blocks.at_cells(features, patients)
    if case.coordinates:
        works["scipy fibre-CSR"] = peers.scipy_fibres(tensor, features, gram)
    seconds = interleaved(works, plan.repeats)
    if case.coordinates:
        seconds |= interleaved({"coordinates": _iteration(plain, features, gram)}, 1)
        seconds |= _tensorly(tensor, plan)
    return seconds


def _pyttb(tensor: CountTensor) -> dict[str, dict[str, float]]:
    rng = np.random.default_rng(0)
    work = peers.pyttb_iteration(tensor, [rng.random((size, RANK)) for size in tensor.shape[1:]])
    return {} if work is None else interleaved({"pyttb": work}, 1)


def _tensorly(tensor: CountTensor, plan: BenchmarkPlan) -> dict[str, dict[str, float]]:
    """TensorLy needs the dense array: thirty patients are what it can bear."""
    few = tensor.select_patients(np.arange(30)).drop_unused()
    tensorly = peers.tensorly_iteration(few, RANK)
    if tensorly is None:
        return {}
    rng = np.random.default_rng(0)
    own = [rng.random((size, RANK)) for size in few.shape[1:]]
    ours = _iteration(few.cells, own, gram_of_others(own))
    return interleaved({"TensorLy": tensorly, "blocks, 30 patients": ours}, plan.repeats)


def _iteration(
    cells: Any, features: list[np.ndarray], gram: np.ndarray, *, nonnegative: bool = False
) -> Work:
    """All products of one iteration: the patients with the first mode, then the second.

    A non-negative one starts from the last solution, as iterations do.
    """
    guess, _ = cells.update_patients(features, gram, nonnegative=nonnegative)

    def work() -> None:
        patients, _ = cells.update_patients(features, gram, nonnegative=nonnegative, guess=guess)
        cells.feature_product(features, patients, 1)

    work()  # what is laid out on first use belongs to no iteration
    return work


def _alone(work: Work) -> Work:
    def limited() -> None:
        with limited_to(1):
            work()

    return limited


def _ranks(cells: Any, case: BenchmarkCase, plan: BenchmarkPlan) -> dict[str, float]:
    """Iterations of several ranks; the non-negative ones as a fit meets them: first, then later."""
    works = {}
    for rank in case.ranks:
        rng = np.random.default_rng(rank)
        start = [rng.random((size, rank)) for size in cells.sizes]
        works[str(rank)] = partial(_update_all, cells, start, None, nonnegative=False)
        works[f"{rank}, non-negative, first"] = partial(_update_all, cells, start, None)
        before: tuple[list[np.ndarray], np.ndarray | None] = (start, None)
        for _ in range(5):
            before = _update_all(cells, *before)
        works[f"{rank}, non-negative, later"] = partial(_update_all, cells, *before)
    return {rank: best["wall"] for rank, best in interleaved(works, plan.repeats).items()}


def _update_all(
    cells: Any, features: list[np.ndarray], guess: np.ndarray | None, *, nonnegative: bool = True
) -> tuple[list[np.ndarray], np.ndarray]:
    """A whole iteration, the features' solves included; patients of the last one are the guess."""
    features = list(features)
    gram, _ = regular(gram_of_others(features))
    patients, product = cells.update_patients(features, gram, nonnegative=nonnegative, guess=guess)
    for mode in range(len(features)):
        if mode > 0:
            product = cells.feature_product(features, patients, mode)
        gram, _ = regular(cells.patient_gram(patients) * gram_of_others(features, mode))
        solved = solve_rows(product, gram, nonnegative=nonnegative)
        features[mode], lengths = unit_columns(solved)
        patients = patients * lengths
    return features, patients
