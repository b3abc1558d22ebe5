"""From a federation on this machine to a finished run folder."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from tripheno import __version__
from tripheno.errors import SettingsError
from tripheno.evaluation.communication import MEGABYTE
from tripheno.evaluation.doors import solver_doors
from tripheno.evaluation.origin import origins, own_models
from tripheno.evaluation.prevalence import prevalence_of
from tripheno.evaluation.simulation import (
    Announce,
    Federation,
    compare,
    run_methods,
    share_out,
)
from tripheno.evaluation.stability import half_models, matched
from tripheno.exchange import Listener
from tripheno.exchange.keys import Identity, from_seed
from tripheno.exchange.simulated import SumsKind, sums_for
from tripheno.files import write_text
from tripheno.privacy.audit import AuditLog
from tripheno.progress import ProgressLog, Status, both
from tripheno.provenance import file_fingerprint, provenance
from tripheno.report.models_table import models_table
from tripheno.report.page import render_page
from tripheno.report.phenotypes import Evidence, phenotypes_of
from tripheno.report.run_folder import Run, read_report, write_run
from tripheno.solver.settings import Method, SolverSettings
from tripheno.solver.solution import Iteration, Solution
from tripheno.tensor.count_tensor import CountTensor
from tripheno.tensor.reading import read_tensor

FEWEST_TO_SPLIT = 4  # patients of a hospital
HALVES_TOLERANCE = 1e-4  # models that are only compared need not settle to the last digit
EVERY_METHOD: tuple[Method, ...] = ("central", "exact", "trip", "local")


@dataclass(frozen=True)
class Study:
    """What is to be run on a federation, and beside what."""

    federation: Federation
    settings: SolverSettings
    inputs: Mapping[str, str]
    every: bool = False  # one sub-folder per method
    beside: tuple[Method, ...] = ("central", "local")  # run too, to compare with
    own: SolverSettings | None = None  # for each hospital's own model; None: the same settings
    names: Mapping[str, dict[int, str]] = field(default_factory=dict)  # method → component → name
    sums: SumsKind | None = None  # secure from three hospitals on, if not said
    halves: int = 1  # how often patients are split in two to see whether phenotypes come back


def federation_from_files(
    sites: Sequence[Path], hospitals: int | None, skew: float | None, seed: int
) -> tuple[dict[str, CountTensor], dict[str, str]]:
    """One hospital per file, or one file dealt to several; and the files' fingerprints."""
    names = _site_names(sites)
    inputs = {}
    tensors = {}
    for name, site in zip(names, sites, strict=True):
        tensors[name] = read_tensor(site)
        file = site / "events.parquet" if site.is_dir() else site
        inputs[name] = file_fingerprint(file)
    if hospitals is not None:
        if len(tensors) != 1:
            raise SettingsError(
                f"--hospitals with {len(tensors)} sites",
                fix="give one site to deal, or no --hospitals",
            )
        (tensor,) = tensors.values()
        tensors = share_out(tensor, hospitals, skew, np.random.default_rng(seed))
    return tensors, inputs


def _site_names(sites: Sequence[Path]) -> list[str]:
    """The last part of each path, numbered where two are the same."""
    names = [site.resolve().name.split(".")[0] for site in sites]
    if len(set(names)) == len(names):
        return names
    return [f"{name}-{k + 1}" for k, name in enumerate(names)]


STAGES: dict[Method, str] = {
    "central": "all patients in one place (central)",
    "exact": "the hospitals together (exact)",
    "trip": "the hospitals together (trip)",
    "local": "every hospital alone, then averaged (local)",
}


def progress_log(
    federation: Federation, settings: SolverSettings, folder: Path, *, every: bool = False
) -> ProgressLog:
    """The log that the dashboard follows; a simulation may know every hospital's size."""
    hospitals = [
        {"name": name, "patients": tensor.patients, "nonzeros": tensor.nonzeros}
        for name, tensor in federation.tensors.items()
    ]
    run = "trip" if every else ""
    status = Status(settings.method, settings.n_components, settings.max_iter, run=run)
    return ProgressLog(folder, status, hospitals)


def run_study(
    study: Study, folder: Path, started: float, announce: Announce | None = None
) -> dict[str, Any]:
    """Run, write the folder, and give back the summary, the comparison and the solutions."""
    with progress_log(study.federation, study.settings, folder, every=study.every) as log:
        return run_logged(study, folder, started, log, announce)


def run_logged(
    study: Study,
    folder: Path,
    started: float,
    log: ProgressLog,
    announce: Announce | None = None,
) -> dict[str, Any]:
    """The same within a log that was begun already."""
    settings = study.settings
    solutions, audits = _solve(study, log, announce)
    rows = comparison_rows(solutions)
    own = {}
    if len(study.federation.tensors) > 1 and "local" in solutions:
        log.stage("every hospital's own model")
        own = own_models(study.federation, study.own or settings)
    parts = _half_models(study, solutions, log)
    log.stage("the report")
    beside = _Beside(solutions, own, parts, rows)
    runs = {
        method: _run_of(solution, study, beside, started) for method, solution in solutions.items()
    }
    if study.every:
        for method, run in runs.items():
            _write_whole(folder / method, run)
            _write_audit(folder / method, audits.get(method))
        summary = _summary_of_all(runs, rows)
        write_text(folder / "report.html", render_page(read_report(folder / "trip")))
        write_run_summary(folder, summary)
    else:
        run = runs[settings.method]
        _write_whole(folder, run)
        _write_audit(folder, audits.get(settings.method))
        summary = run.summary()
    return {"summary": summary, "comparison": rows, "solutions": solutions, "own": own}


def _solve(
    study: Study, log: ProgressLog, announce: Announce | None
) -> tuple[dict[Method, Solution], dict[Method, AuditLog]]:
    """Every method asked for, its messages audited and its progress written down."""
    settings = study.settings
    wanted = {settings.method, *study.beside}
    methods = [m for m in EVERY_METHOD if study.every or m in wanted]
    kind, sums = sums_for(study.sums, len(study.federation.tensors), settings.seed)
    audits: dict[Method, AuditLog] = {
        method: _audit_log(study, method) for method in methods if method != "central"
    }

    def heard(method: Method) -> Listener:
        def stage(*_message: object) -> None:
            if log.status.stage != STAGES[method]:
                log.stage(STAGES[method], settings.restarts)

        return both(stage, log.listen)

    def told(method: Method, line: Iteration) -> None:
        log.iteration(line._asdict(), shown=method == settings.method)
        if announce is not None:
            announce(method, line)

    doors = {
        method: solver_doors(
            study.federation.tensors, replace(settings, method=method), kind, audit
        )
        for method, audit in audits.items()
    }
    solutions = run_methods(
        study.federation, settings, methods, sums=sums, announce=told,
        listeners={method: heard(method) for method in methods}, guards=doors,
    )  # fmt: skip
    return solutions, audits


def _audit_log(study: Study, method: Method) -> AuditLog:
    """The log of a method's messages; a simulation's keys come from its seed."""
    entropy = from_seed(study.settings.seed, f"audit/{method}")
    keeper, coordinator = (Identity.from_bytes(entropy(who)) for who in ("keeper", "coordinator"))
    run = f"simulate {method}, seed {study.settings.seed}"
    log = AuditLog(run, keeper, coordinator, lambda: datetime.now(UTC).isoformat("T", "seconds"))
    log.take(study.federation.minutes)
    return log


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
                "seconds": solution.costs.seconds_slowest_hospital + solution.costs.seconds_server,
                "megabytes": solution.costs.bytes_total / MEGABYTE,
            }
        )
    return rows


@dataclass(frozen=True)
class _Beside:
    """Everything a solution is seen beside."""

    solutions: Mapping[Method, Solution]
    own: Mapping[str, Solution]
    halves: Sequence[Solution]
    rows: list[dict[str, Any]]


def _half_models(
    study: Study, solutions: Mapping[Method, Solution], log: ProgressLog
) -> list[Solution]:
    """Models of halves of the patients; none where a hospital has too few to split."""
    tensors = study.federation.tensors
    if study.halves == 0 or min(tensor.patients for tensor in tensors.values()) < FEWEST_TO_SPLIT:
        return []
    log.stage("halves of every hospital's patients (exact)")
    settings = solutions[study.settings.method].settings
    again = replace(
        settings, restarts=study.settings.restarts, tol=max(settings.tol, HALVES_TOLERANCE)
    )
    _, sums = sums_for(study.sums, len(tensors), settings.seed)
    rng = np.random.default_rng([settings.seed, 2])
    return half_models(tensors, again, rng, study.halves, sums)


def _run_of(solution: Solution, study: Study, beside: _Beside, started: float) -> Run:
    method, central = solution.settings.method, beside.solutions.get("central")
    own = beside.own
    pairs = {}
    if central is not None:
        pairs["central"] = compare(solution, central)
        if "local" in beside.solutions:
            pairs["local"] = compare(beside.solutions["local"], central)
    evidence = Evidence(
        origins(solution, own) if own else None,
        prevalence_of(_memberships(solution, study.federation), solution.factors),
        list(solution.component_match) or None,
        [float(one) for one in matched(solution, beside.halves)] if beside.halves else None,
    )
    return Run(
        solution,
        study.federation,
        phenotypes_of(solution, study.names.get(method), evidence),
        provenance(solution.settings.to_dict(), study.inputs),
        time.perf_counter() - started,
        pairs,
        sums=_sums_of(method, study),
        comparison={
            "methods": beside.rows,
            "table": models_table(solution, central, own) if own else None,
        },
    )


def _sums_of(method: Method, study: Study) -> str:
    """How the contributions of a method were added: `central` has one member and nothing to hide.

    `local` releases each hospital's own factors in clear, whatever the sums beside them.
    """
    if method == "central":
        return "plain"
    return sums_for(study.sums, len(study.federation.tensors), study.settings.seed)[0]


def _memberships(solution: Solution, federation: Federation) -> dict[str, np.ndarray]:
    """Patients by hospital; the central model keeps them in one pile, in the hospitals' order."""
    sizes = [tensor.patients for tensor in federation.tensors.values()]
    pile = np.concatenate(list(solution.patient_factors.values()))[:, : len(solution.weights)]
    parts = np.split(pile, np.cumsum(sizes)[:-1])
    return dict(zip(federation.tensors, parts, strict=True))


def _write_whole(folder: Path, run: Run) -> None:
    write_run(folder, run)
    write_text(folder / "report.html", render_page(read_report(folder)))


def _summary_of_all(runs: Mapping[Method, Run], rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The top ``run.json`` of several methods: what they share, and how they compare."""
    shared = runs["trip"].summary()
    common = (
        "rank",
        "constraint",
        "seed",
        "hospitals",
        "modes",
        "shape",
        "nonzeros",
        "sums",
        "provenance",
    )
    return {
        "tripheno": __version__,
        "method": "all",
        **{name: shared[name] for name in common},
        "compare": {
            row["method"]: {"rmse_gap": row["rmse_gap"], "fms": row["fms"]} for row in rows
        },
        "methods": {method: run.summary() for method, run in runs.items()},
    }
