"""The run folder of a real federation: one at every hospital, one at the coordinator.

A hospital's has its own counts, its own patients' factor and the codes it knows by name. The
coordinator's has sums over all members, and positions where it knows no codes.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tripheno.evaluation.prevalence import Prevalence, prevalence_of_sums, shown_prevalence
from tripheno.evaluation.simulation import Federation
from tripheno.federation.axes import with_names
from tripheno.federation.coordination import Result
from tripheno.federation.hospital_desk import Finished
from tripheno.files import write_text
from tripheno.privacy.labels import Named
from tripheno.protocol.agreed import Protocol, protocol_hash
from tripheno.provenance import provenance
from tripheno.report.page import render_page
from tripheno.report.phenotypes import Evidence, phenotypes_of
from tripheno.report.run_folder import Run, read_report, write_run
from tripheno.solver.diagnosis import carriers
from tripheno.solver.solution import Costs, Iteration, Rmse, Solution


@dataclass(frozen=True)
class Occasion:
    """Which run of which study, and when it began here (seconds of the wall clock)."""

    protocol: Protocol
    run: str
    started: float


def write_coordinator_run(folder: Path, result: Result, when: Occasion) -> dict[str, Any]:
    """The coordinator's folder; its summary."""
    protocol = when.protocol
    solution = result.solution
    fewest = protocol.thresholds.min_cell_count
    federation = Federation(
        {}, solution.axes, result.alignment_seconds, protocol.alignment, result.removed
    )
    prevalence = prevalence_of_sums(solution.carriers or (), solution.patients, fewest)
    return _write(folder, solution, federation, prevalence, when)


def write_hospital_run(folder: Path, name: str, end: Finished, when: Occasion) -> dict[str, Any]:
    """A hospital's own folder; its summary."""
    protocol = when.protocol
    solution = hospital_solution(name, end, protocol)
    told = end.summary
    federation = Federation(
        {name: end.tensor}, solution.axes, told["alignment_seconds"], protocol.alignment,
        told["removed"],
    )  # fmt: skip
    fewest = protocol.thresholds.min_cell_count
    shown = solution.patient_factors[name][:, : protocol.solver.n_components]
    counts = carriers(shown, solution.factors).sum(axis=0)
    prevalence = [
        shown_prevalence({name: int(count)}, {name: end.tensor.patients}, fewest)
        for count in counts
    ]
    return _write(folder, solution, federation, prevalence, when)


def hospital_solution(name: str, end: Finished, protocol: Protocol) -> Solution:
    """The shared solution as one hospital holds it."""
    settings = protocol.solver.with_variant_rules()
    told: Mapping[str, Any] = end.summary
    shown = settings.n_components
    return Solution(
        settings=settings,
        axes=with_names(end.tensor.axes, _named(told)),
        factors=tuple(factor[:, :shown] for factor in end.factors),
        weights=np.array(told["weights"]),
        bias=tuple(factor[:, shown] for factor in end.factors) if settings.bias else None,
        objective=told["objective"],
        rmse=Rmse(**told["rmse"]),
        history=tuple(Iteration(**line) for line in told["history"]),
        converged=told["converged"],
        stopped_because=told["stopped_because"],
        costs=Costs(**told["costs"]),
        patients=told["patients"],
        nonzeros=told["nonzeros"],
        notes=tuple(told["notes"]),
        squared_norm=told["squared_norm"],
        patient_factors={name: end.patients},
    )


def _named(told: Mapping[str, Any]) -> Named:
    """The names that hospitals released, as every member was told them."""
    return {
        mode: {int(place): (code, label) for place, (code, label) in places.items()}
        for mode, places in told["names"].items()
    }


def _write(
    folder: Path,
    solution: Solution,
    federation: Federation,
    prevalence: list[Prevalence],
    when: Occasion,
) -> dict[str, Any]:
    """Every file, and the page."""
    protocol = when.protocol
    evidence = Evidence(None, prevalence, None)
    made = Run(
        solution,
        federation,
        phenotypes_of(solution, None, evidence),
        provenance(protocol.to_dict(), {}),
        time.time() - when.started,
        sums="secure",
        members=protocol.names,
        extra={
            "run": when.run,
            "study": protocol.study,
            "protocol_sha256": protocol_hash(protocol),
        },
    )
    write_run(folder, made)
    write_text(folder / "report.html", render_page(read_report(folder)))
    return made.summary()
