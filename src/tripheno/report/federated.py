"""The run folder of a real federation: one at every hospital, one at the coordinator.

A hospital's has its own counts, its own patients' factor and the codes it knows by name. The
coordinator's has what was released: sums over all members, and positions where it knows no codes.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tripheno.files import write_text
from tripheno.privacy.prevalence import Prevalence, prevalence_of, prevalence_of_sums
from tripheno.privacy.subgroups import Group
from tripheno.protocol.agreed import StudyProtocol, protocol_hash, words_of
from tripheno.provenance import provenance
from tripheno.report.page import write_page
from tripheno.report.phenotypes import Evidence, evidence_of, phenotypes_of, weighed_in_words
from tripheno.report.run_folder import Run, write_run
from tripheno.study.program import with_names
from tripheno.study.result import Findings
from tripheno.study.simulation import Federation
from tripheno.study.subgroups import counted_groups, groups_of
from tripheno.tensor.count_tensor import CountTensor


@dataclass(frozen=True)
class RunIdentity:
    """Which run of which study, and when it began here (seconds of the wall clock)."""

    protocol: StudyProtocol
    run: str
    started: float


def write_coordinator_run(folder: Path, found: Findings, when: RunIdentity) -> dict[str, Any]:
    """The coordinator's folder; its summary."""
    solution = replace(found.solution, axes=with_names(found.solution.axes, found.named))
    prevalence = prevalence_of_sums(found.weighed.carriers, solution.patients, found.fewest)
    return _write(folder, replace(found, solution=solution), {}, prevalence, when)


def write_hospital_run(
    folder: Path,
    name: str,
    tensor: CountTensor,
    found: Findings,
    when: RunIdentity,
    *,
    traits: np.ndarray | None = None,
) -> dict[str, Any]:
    """A hospital's own folder, with its own figures beside those of all; its summary."""
    fewest = found.fewest
    having = found.weighed.having[name]
    together = prevalence_of_sums(found.weighed.carriers, found.solution.patients, fewest)
    own = prevalence_of({name: having}, fewest)
    prevalence = [
        replace(all_of_them, patients=here.patients, share=here.share)
        for all_of_them, here in zip(together, own, strict=True)
    ]
    groups = {} if traits is None else {name: groups_of(counted_groups(traits, having), fewest)}
    return _write(folder, found, {name: tensor}, prevalence, when, own=groups)


def _write(
    folder: Path,
    found: Findings,
    tensors: dict[str, CountTensor],
    prevalence: list[Prevalence],
    when: RunIdentity,
    *,
    own: Mapping[str, tuple[Group, ...]] | None = None,
) -> dict[str, Any]:
    """Every file, and the page."""
    protocol, solution, groups = when.protocol, found.solution, found.weighed.groups
    federation = Federation(
        tensors, solution.axes, found.alignment_seconds, protocol.alignment, found.codes_removed,
        aside=found.aside, lacks=found.lacks,
    )  # fmt: skip
    match = list(solution.component_match) or None
    evidence = Evidence(None, prevalence, match, **weighed_in_words(found.weighed, found.fewest))
    made = Run(
        solution,
        federation,
        phenotypes_of(solution, None, evidence),
        provenance(protocol.to_dict(), {}),
        time.time() - when.started,
        sums="blind",
        evidence=evidence_of(
            found.weighed, protocol.evidence.resamples, solution.patients, found.fewest
        ),
        members=protocol.names,
        groups={"all hospitals": groups, **(own or {})} if groups else {},
        extra={
            "run": when.run,
            "study": protocol.study,
            "protocol_sha256": protocol_hash(protocol),
            "study_words": words_of(protocol),
        },
    )
    write_run(folder, made)
    if found.ranks is not None:
        write_text(folder / "ranks.json", json.dumps(asdict(found.ranks), indent=2) + "\n")
    write_page(folder)
    return made.summary()
