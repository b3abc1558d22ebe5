"""What masks and private alignment cost, in CPU seconds of all hospitals and the server."""

from __future__ import annotations

import time
import warnings

import numpy as np

from tripheno.errors import TriphenoWarning
from tripheno.evaluation.simulation import share_out
from tripheno.exchange import plain_sums
from tripheno.exchange.simulated import SecureSums
from tripheno.records.synthetic import synthetic_network
from tripheno.records.synthetic_presets import ucsd_settings
from tripheno.solver.fit import fit
from tripheno.solver.settings import SolverSettings
from tripheno.tensor import CountTensor, pooled
from tripheno.vocabulary.aligners import TokenAligner
from tripheno.vocabulary.alignment import align_plainly

RANK = 10


def report() -> str:
    """Secure against plain sums at the paper's UCSD size, K = 3; alignment of 3,229 codes."""
    warnings.simplefilter("ignore", TriphenoWarning)
    hospitals = share_out(_ucsd_tensor(), 3, None, np.random.default_rng(0))
    lines = ["| 15 iterations, K = 3 | plain CPU s | secure CPU s | ratio |", "|---|---|---|---|"]
    for method in ("exact", "trip"):
        settings = SolverSettings(RANK, method, max_iter=15, tol=1e-15)
        least: dict[str, float] = {}
        for _ in range(2):
            for kind, make in (("plain", plain_sums), ("secure", SecureSums(0))):
                started = time.process_time()
                fit(hospitals, settings, sums=make)
                spent = time.process_time() - started
                least[kind] = min(spent, least.get(kind, spent))
        plain, secure = least["plain"], least["secure"]
        lines.append(f"| {method} | {plain:.2f} | {secure:.2f} | {secure / plain:.2f}× |")
    started = time.process_time()
    lists = ({f"{n:05d}": 1 for n in range(k, 3229, 1 + k)} for k in range(3))
    TokenAligner(0).align({f"hospital-{k}": {"diagnosis": own} for k, own in enumerate(lists)})
    spent = time.process_time() - started
    seed = "(the seed paper: 22.6 to 59 s)"
    return "\n".join([*lines, "", f"3,229 codes aligned by tokens, K = 3: {spent:.2f} s {seed}"])


def _ucsd_tensor() -> CountTensor:
    network = synthetic_network(ucsd_settings())
    tensors = [CountTensor.from_events(hospital.events) for hospital in network.hospitals]
    axes = align_plainly([tensor.axes for tensor in tensors])
    return pooled([tensor.on_axes(axes) for tensor in tensors])
