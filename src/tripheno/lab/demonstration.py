"""The story the demo tells: what three hospitals see alone, and what they see together."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tripheno.evaluation.recovery import Recovered, recovery
from tripheno.lab.synthetic.network import SyntheticNetwork, synthetic_network
from tripheno.lab.synthetic.presets import DEMO_RANK, demo_settings
from tripheno.provenance import fingerprint
from tripheno.report.phenotypes import phenotypes_of
from tripheno.report.simulated import progress_log, run_logged
from tripheno.solver.settings import Method, SolverSettings
from tripheno.solver.solution import Solution
from tripheno.study.simulation import Announce, Federation, Simulation, assemble
from tripheno.tensor.count_tensor import CountTensor


def demonstrate(
    folder: Path, seed: int, started: float, say: Callable[[str], None], announce: Announce
) -> dict[str, Any]:
    """Make hospitals, run every method, look for what was planted, write the run folder."""
    network = synthetic_network(demo_settings(seed))
    tensors = {h.name: CountTensor.from_events(h.events) for h in network.hospitals}
    federation = assemble(tensors, seed=seed)
    for name, tensor in tensors.items():
        sizes = " × ".join(f"{axis.size} {axis.mode} codes" for axis in tensor.axes)
        say(f"{name}: {tensor.patients:,} patients × {sizes}, {tensor.nonzeros:,} cells")
    settings = SolverSettings(n_components=DEMO_RANK, seed=seed)
    with progress_log(federation, settings, folder) as log:
        study = _study(federation, settings, seed)
        result = run_logged(study, folder, started, log, announce)
    return {**result, **_findings(network, federation, result)}


def _study(federation: Federation, settings: SolverSettings, seed: int) -> Simulation:
    """`exact` beside the other methods; a hospital alone has the same chance of a good start."""
    inputs = {"synthetic": fingerprint({"preset": "demo", "seed": seed})}
    beside: tuple[Method, ...] = ("central", "trip", "local")
    return Simulation(federation, settings, inputs, beside=beside)


def _findings(
    network: SyntheticNetwork, federation: Federation, result: Mapping[str, Any]
) -> dict[str, Any]:
    """What was planted and where it was found again."""
    planted = [phenotype.name for phenotype in network.planted]
    together = _recovered(network, federation, result["solutions"]["exact"])
    alone = {name: _recovered(network, federation, model) for name, model in result["own"].items()}
    shown = result["solutions"]["exact"]
    grades = result["weighed"]["exact"].grades
    rows = [
        {
            "name": name,
            "together": together[i].found,
            "similarity": together[i].similarity,
            "grade": grades[together[i].component].grade if together[i].found else None,
            "alone": {hospital: found[i].found for hospital, found in alone.items()},
        }
        for i, name in enumerate(planted)
    ]
    return {
        "hospitals": list(federation.tensors),
        "planted": rows,
        "phenotypes": _phenotype_rows(shown, together),
        "sentences": _sentences(rows, result["comparison"]),
    }


def _recovered(
    network: SyntheticNetwork, federation: Federation, solution: Solution
) -> list[Recovered]:
    truth = {
        axis.mode: network.truth(axis.mode, tuple(axis.known.values())) for axis in federation.axes
    }
    names = [phenotype.name for phenotype in network.planted]
    return recovery(names, truth, solution.by_mode)


def _phenotype_rows(solution: Solution, together: list[Recovered]) -> list[dict[str, Any]]:
    named = {item.component: item.name for item in together if item.found}
    return [
        {
            "phenotype": p.number,
            "share": p.share,
            "planted": named.get(p.number - 1),
            "words": p.words,
        }
        for p in phenotypes_of(solution)
    ]


def _sentences(planted: list[dict[str, Any]], comparison: list[dict[str, Any]]) -> list[str]:
    """What the tables say, in words."""
    seen = {row["name"]: sum(row["alone"].values()) for row in planted}
    found = [row["name"] for row in planted if row["together"]]
    graded = {row["name"]: f"{row['name']} ({row['grade']})" for row in planted}
    groups = {
        "Seen only together": [graded[name] for name in found if not seen[name]],
        "Seen at one hospital alone, and together": [
            graded[name] for name in found if seen[name] == 1
        ],
        f"Seen alone and lost together, where {DEMO_RANK} phenotypes have no room for it": [
            name for name, hospitals in seen.items() if hospitals and name not in found
        ],
    }
    gaps = {row["method"]: row for row in comparison}
    exact, trip = gaps["exact"], gaps["trip"]
    sentences = [
        f"Together the hospitals are within {abs(100 * exact['rmse_gap']):.4f} % of pooled data "
        f"(FMS {exact['fms']:.3f}), by the paper's TRIP within {abs(100 * trip['rmse_gap']):.4f} % "
        f"(FMS {trip['fms']:.3f}); averaging each hospital's own model is off by "
        f"{100 * gaps['local']['rmse_gap']:.1f} % (FMS {gaps['local']['fms']:.3f})."
    ]
    named = (f"{words}: {', '.join(names)}." for words, names in groups.items() if names)
    return [*sentences, *named]
