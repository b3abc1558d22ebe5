"""The run folder of a simulation: every method beside the others, and the page."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tripheno import __version__
from tripheno.evaluation.communication import MEGABYTE
from tripheno.evaluation.comparison import compare
from tripheno.evaluation.origin import origins
from tripheno.files import write_text
from tripheno.privacy.audit import AuditLog
from tripheno.privacy.prevalence import MIN_CELL, prevalence_of
from tripheno.progress import ProgressLog, Status
from tripheno.provenance import provenance
from tripheno.records.source import is_remainder
from tripheno.report.models_table import models_table
from tripheno.report.page import write_page
from tripheno.report.phenotypes import Evidence, evidence_of, phenotypes_of, weighed_in_words
from tripheno.report.run_folder import SHOWN, Run, write_run
from tripheno.solver.settings import Method, SolverSettings
from tripheno.solver.solution import Solution
from tripheno.study.simulation import Announce, Federation, Simulated, Simulation, simulate
from tripheno.study.subgroups import counted_groups, groups_of


def progress_log(
    federation: Federation, settings: SolverSettings, folder: Path, *, every: bool = False
) -> ProgressLog:
    """The log that the dashboard follows; a simulation may know every hospital's size."""
    hospitals = [
        {"name": name, "patients": tensor.patients, "nonzeros": tensor.nonzeros}
        for name, tensor in federation.tensors.items()
    ]
    run = SHOWN if every else ""
    status = Status(settings.method, settings.n_components, settings.max_iter, run=run)
    return ProgressLog(folder, status, hospitals)


def run_simulation(
    study: Simulation, folder: Path, started: float, announce: Announce | None = None
) -> dict[str, Any]:
    """Run, write the folder, and give back the summary, the comparison and the solutions."""
    with progress_log(study.federation, study.settings, folder, every=study.every) as log:
        return run_logged(study, folder, started, log, announce)


def run_logged(
    study: Simulation,
    folder: Path,
    started: float,
    log: ProgressLog,
    announce: Announce | None = None,
) -> dict[str, Any]:
    """The same within a log that was begun already."""
    found = simulate(study, log, announce)
    log.stage("the report")
    rows = comparison_rows(found.solutions)
    runs = {
        method: _run_of(found.solutions[method], study, found, rows, started)
        for method in found.weighed
    }
    if study.every:
        for method, run in runs.items():
            _write_whole(folder / method, run)
            _write_audit(folder / method, found.audits.get(method))
        summary = _summary_of_all(runs, rows)
        page = (folder / SHOWN / "report.html").read_text(encoding="utf-8")
        write_text(folder / "report.html", page)
        write_run_summary(folder, summary)
    else:
        run = runs[study.settings.method]
        _write_whole(folder, run)
        _write_audit(folder, found.audits.get(study.settings.method))
        summary = run.summary()
    solved = {"solutions": found.solutions, "own": found.own, "weighed": found.weighed}
    return {"summary": summary, "comparison": rows, **solved}


def _write_audit(folder: Path, log: AuditLog | None) -> None:
    """``audit.jsonl``, and beside it the head that the coordinator of a federation would keep."""
    for name in ("audit.jsonl", "audit.head.json"):
        (folder / name).unlink(missing_ok=True)
    if log is not None:
        head = log.close()
        write_text(folder / "audit.jsonl", log.text())
        write_text(folder / "audit.head.json", json.dumps(head.to_dict(), indent=2) + "\n")


def write_run_summary(folder: Path, summary: dict[str, Any]) -> None:
    """The ``run.json`` at the top of several runs."""
    write_text(folder / "run.json", json.dumps(summary, indent=2, ensure_ascii=False) + "\n")


def comparison_rows(solutions: Mapping[Method, Solution]) -> list[dict[str, Any]]:
    """One row per method, against central where it was run."""
    central = solutions.get("central")
    rows = []
    for method, solution in solutions.items():
        against = compare(solution, central) if central is not None else None
        rows.append(
            {
                "method": method,
                "rmse": solution.rmse.nonzeros,
                "rmse_gap": against.rmse_gap if against else None,
                "fms": against.fms if against else None,
                "iterations": solution.iterations,
                "seconds": solution.costs.seconds_slowest_hospital + solution.costs.seconds_shared,
                "megabytes": solution.costs.bytes_total / MEGABYTE,
            }
        )
    return rows


def _run_of(
    solution: Solution,
    study: Simulation,
    beside: Simulated,
    rows: list[dict[str, Any]],
    started: float,
) -> Run:
    method, central = solution.settings.method, beside.solutions.get("central")
    weighed = beside.weighed[method]
    having = _by_hospital(weighed.having, study.federation)
    own = {name: model for name, model in beside.own.items() if not is_remainder(name)}
    pairs = {}
    if central is not None:
        pairs["central"] = compare(solution, central)
        if "local" in beside.solutions:
            pairs["local"] = compare(beside.solutions["local"], central)
    evidence = Evidence(
        origins(solution, own, beside.differ.get(method)) if own else None,
        prevalence_of(having),
        list(solution.component_match) or None,
        **weighed_in_words(weighed),
    )
    return Run(
        solution,
        study.federation,
        phenotypes_of(solution, study.names.get(method), evidence),
        provenance(solution.settings.to_dict(), study.inputs),
        time.perf_counter() - started,
        pairs,
        sums="plain" if method == "central" else study.sums_kind,
        evidence=evidence_of(weighed, study.resamples, solution.patients),
        groups={"all hospitals": weighed.groups} if weighed.groups else {},
        own_groups={
            name: groups_of(counted_groups(traits, having[name]), MIN_CELL)
            for name, traits in (study.federation.traits or {}).items()
        },
        comparison={
            "methods": rows,
            "table": models_table(solution, central, own, study.federation.tensors)
            if own
            else None,
        },
    )


def _by_hospital(having: Mapping[str, np.ndarray], federation: Federation) -> dict[str, np.ndarray]:
    """Patients by hospital; the central model keeps them in one pile, in the hospitals' order."""
    sizes = [tensor.patients for tensor in federation.tensors.values()]
    parts = np.split(np.concatenate(list(having.values())), np.cumsum(sizes)[:-1])
    return dict(zip(federation.tensors, parts, strict=True))


def _write_whole(folder: Path, run: Run) -> None:
    write_run(folder, run)
    write_page(folder)


def _summary_of_all(runs: Mapping[Method, Run], rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The top ``run.json`` of several methods: what they share, and how they compare."""
    shared = runs[SHOWN].summary()
    common = (
        "rank", "constraint", "seed", "hospitals", "modes", "shape", "nonzeros", "sums",
        "provenance",
    )  # fmt: skip
    return {
        "tripheno": __version__,
        "method": "all",
        **{name: shared[name] for name in common},
        "compare": {
            row["method"]: {"rmse_gap": row["rmse_gap"], "fms": row["fms"]} for row in rows
        },
        "methods": {method: run.summary() for method, run in runs.items()},
    }
