"""Kernels and whole fits, as ratios measured in one run: ``make bench``."""

from __future__ import annotations

import os
import platform
import time
import warnings
from collections.abc import Callable
from datetime import UTC, datetime

import numpy as np

from benchmarks import ingest
from tripheno.errors import TriphenoWarning
from tripheno.evaluation.simulation import share_out
from tripheno.exchange import plain_sums
from tripheno.exchange.simulated import SecureSums
from tripheno.records.synthetic import synthetic_network
from tripheno.records.synthetic_presets import ucsd_settings
from tripheno.solver.fit import fit
from tripheno.solver.settings import SolverSettings
from tripheno.tensor import CountTensor, pooled, reference
from tripheno.vocabulary.aligners import TokenAligner
from tripheno.vocabulary.alignment import align_plainly

RANK = 10


def fastest(work: Callable[[], object], times: int = 3) -> float:
    """The least of several timings: what the machine can do when nothing disturbs it."""
    work()
    seconds = []
    for _ in range(times):
        started = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - started)
    return min(seconds)


def ucsd_tensor() -> CountTensor:
    network = synthetic_network(ucsd_settings())
    tensors = [CountTensor.from_events(hospital.events) for hospital in network.hospitals]
    axes = align_plainly([tensor.axes for tensor in tensors])
    return pooled([tensor.on_axes(axes) for tensor in tensors])


def kernels_against_their_twins(tensor: CountTensor) -> None:
    part = tensor.select_patients(np.arange(200))
    rng = np.random.default_rng(0)
    factors = [rng.random((size, RANK)) for size in part.shape]
    dense = part.to_tensorly()
    print("| MTTKRP, 200 patients | kernel ms | dense einsum ms | ratio |\n|---|---|---|---|")
    for mode in range(3):

        def kernel(mode: int = mode) -> np.ndarray:
            if mode == 0:
                return part.cells.patient_product(factors[1:])
            return part.cells.feature_product(factors[1:], factors[0], mode - 1)

        ours = fastest(kernel)
        plain = fastest(lambda mode=mode: reference.mttkrp(dense, factors, mode), 1)
        print(f"| mode {mode} | {1e3 * ours:.2f} | {1e3 * plain:.1f} | {plain / ours:.0f}× |")


def whole_fits(tensor: CountTensor) -> None:
    hospitals = share_out(tensor, 3, None, np.random.default_rng(0))
    print("\n| 20 iterations, K = 3 | seconds | against central |\n|---|---|---|")
    central = 0.0
    for method in ("central", "exact", "trip"):
        settings = SolverSettings(
            RANK, method, max_iter=20, tol=1e-15, track_rmse=False, most_inner_steps=3
        )
        seconds = fastest(lambda settings=settings: fit(hospitals, settings), 1)
        central = central or seconds
        print(f"| {method} | {seconds:.2f} | {seconds / central:.2f}× |")


def secure_sums(tensor: CountTensor) -> None:
    """What masks cost, in CPU seconds of all hospitals and the server; alignment beside it."""
    hospitals = share_out(tensor, 3, None, np.random.default_rng(0))
    print("\n| 15 iterations, K = 3 | plain CPU s | secure CPU s | ratio |\n|---|---|---|---|")
    for method in ("exact", "trip"):
        settings = SolverSettings(RANK, method, max_iter=15, tol=1e-15)
        least: dict[str, float] = {}
        for _ in range(2):
            for kind in ("plain", "secure"):
                make = SecureSums(0) if kind == "secure" else plain_sums
                started = time.process_time()
                fit(hospitals, settings, sums=make)
                spent = time.process_time() - started
                least[kind] = min(spent, least.get(kind, spent))
        plain, secure = least["plain"], least["secure"]
        print(f"| {method} | {plain:.2f} | {secure:.2f} | {secure / plain:.2f}× |")
    started = time.process_time()
    lists = ({f"{n:05d}": 1 for n in range(k, 3229, 1 + k)} for k in range(3))
    TokenAligner(0).align({f"hospital-{k}": {"diagnosis": own} for k, own in enumerate(lists)})
    spent = time.process_time() - started
    print(f"\nAlignment of 3,229 codes by tokens, K = 3: {spent:.2f} s (seed: 22.6 to 59 s)")


def main() -> None:
    warnings.simplefilter("ignore", TriphenoWarning)
    tensor = ucsd_tensor()
    print(
        f"{datetime.now(UTC):%Y-%m-%d}, {platform.machine()}, {os.cpu_count()} cores; tensor ",
        end="",
    )
    print(" × ".join(map(str, tensor.shape)) + f", {tensor.nonzeros:,} cells, rank {RANK}\n")
    kernels_against_their_twins(tensor)
    whole_fits(tensor)
    secure_sums(tensor)
    print("\n" + ingest.report(ingest.EVENTS, ingest.measure(ingest.EVENTS)))


if __name__ == "__main__":
    main()
