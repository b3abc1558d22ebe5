"""The run folder of a real federation: one at every hospital, one at the coordinator.

A hospital's has its own counts, its own patients' factor and the codes it knows by name. The
coordinator's has what was released: sums over all members, and positions where it knows no codes.
"""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from tripheno.files import write_text
from tripheno.privacy.prevalence import Prevalence, prevalence_of_sums, shown_prevalence
from tripheno.protocol.agreed import Protocol, protocol_hash, words_of
from tripheno.provenance import provenance
from tripheno.report.page import render_page
from tripheno.report.phenotypes import Evidence, evidence_of, phenotypes_of, weighed_in_words
from tripheno.report.run_folder import Run, read_report, write_run
from tripheno.study.program import with_names
from tripheno.study.result import Findings
from tripheno.study.simulation import Federation
from tripheno.tensor.count_tensor import CountTensor


@dataclass(frozen=True)
class Occasion:
    """Which run of which study, and when it began here (seconds of the wall clock)."""

    protocol: Protocol
    run: str
    started: float


def write_coordinator_run(folder: Path, found: Findings, when: Occasion) -> dict[str, Any]:
    """The coordinator's folder; its summary."""
    solution = replace(found.solution, axes=with_names(found.solution.axes, found.named))
    fewest = when.protocol.thresholds.min_cell_count
    prevalence = prevalence_of_sums(found.weighed.carriers, solution.patients, fewest)
    return _write(folder, replace(found, solution=solution), {}, prevalence, when)


def write_hospital_run(
    folder: Path, name: str, tensor: CountTensor, found: Findings, when: Occasion
) -> dict[str, Any]:
    """A hospital's own folder; its summary."""
    fewest = when.protocol.thresholds.min_cell_count
    counts = found.weighed.having[name].sum(axis=0)
    prevalence = [
        shown_prevalence({name: int(count)}, {name: tensor.patients}, fewest) for count in counts
    ]
    return _write(folder, found, {name: tensor}, prevalence, when)


def _write(
    folder: Path,
    found: Findings,
    tensors: dict[str, CountTensor],
    prevalence: list[Prevalence],
    when: Occasion,
) -> dict[str, Any]:
    """Every file, and the page."""
    protocol, solution = when.protocol, found.solution
    federation = Federation(
        tensors, solution.axes, found.alignment_seconds, protocol.alignment, found.codes_removed,
        aside=found.aside, lacks=found.lacks,
    )  # fmt: skip
    match = list(solution.component_match) or None
    evidence = Evidence(None, prevalence, match, **weighed_in_words(found.weighed))
    made = Run(
        solution,
        federation,
        phenotypes_of(solution, None, evidence),
        provenance(protocol.to_dict(), {}),
        time.time() - when.started,
        sums="blind",
        evidence=evidence_of(
            found.weighed,
            protocol.evidence.resamples,
            solution.patients,
            protocol.thresholds.min_cell_count,
        ),
        members=protocol.names,
        extra={
            "run": when.run,
            "study": protocol.study,
            "protocol_sha256": protocol_hash(protocol),
            "protocol_hash": protocol_hash(protocol),
            "study_words": words_of(protocol),
        },
    )
    write_run(folder, made)
    if found.ranks is not None:
        write_text(folder / "ranks.json", json.dumps(asdict(found.ranks), indent=2) + "\n")
    write_text(folder / "report.html", render_page(read_report(folder)))
    return made.summary()
