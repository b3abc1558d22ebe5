"""Do the phenotypes of open data hold? ``python -m benchmarks.evidence DATA [options] [NAME ...]``

DATA is the folder of the open EHR data. For every data set, with patients' influence bounded and
not: how far the default tournament ends above the best of 50 long uniform runs, whether it stopped
where it says, its rounds, the grades of its phenotypes, and whether stable ones come back from
another seed and from patients that the study has not seen. The last column names what should hold
and does not. Prints a Markdown table and appends a line of JSON for every row to ``--out``; the
best of the long runs are kept in ``--kept`` and not sought again. What may be claimed of hospitals
and patients, and what was planted, is `benchmarks.claims`.

Sums do not depend on how patients are divided, so the fits are pooled ones.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from tripheno.errors import TriphenoWarning
from tripheno.exchange.communicator import in_clear
from tripheno.lab.paper.outcomes import cohort_of
from tripheno.lab.synthetic.network import synthetic_network
from tripheno.lab.synthetic.presets import planted_hard_settings
from tripheno.records.eicu import EICU
from tripheno.records.events import CountingRule, read_events
from tripheno.records.ingest import ingest
from tripheno.records.mimic import Mimic
from tripheno.records.omop import OMOP
from tripheno.records.source import IngestSettings
from tripheno.solver.federated import EMPTY
from tripheno.solver.fit import fit
from tripheno.solver.hospital import HospitalState
from tripheno.solver.influence import with_bound
from tripheno.solver.penalties import FactorPenalty
from tripheno.solver.settings import SolverSettings
from tripheno.solver.slopes import slopes, steepest
from tripheno.solver.solution import Solution
from tripheno.solver.stopping import Tolerances
from tripheno.study.evidence import Weighed, seeded_generators, weigh
from tripheno.tensor.count_tensor import CountTensor, pooled
from tripheno.tensor.factors import match_components
from tripheno.vocabulary.alignment import align_plainly

DIAGNOSES, LABS = ("medication", "diagnosis"), ("medication", "lab")
SOURCES = {
    "mimic-dx": (Mimic(), "mimic-iii-demo-1.4", CountingRule(DIAGNOSES, "visit")),
    "mimic-lab": (Mimic(), "mimic-iii-demo-1.4", CountingRule(LABS, "visit")),
    "eicu": (EICU(), "eicu-demo-2.0.1-dev", CountingRule(DIAGNOSES, "visit")),
    "synthea": (OMOP(), "synthea1k-omop", CountingRule(DIAGNOSES, "person")),
}
NAMES = (*SOURCES, "uci", "planted-hard")
LONG_RUNS, LONG = 50, 150
NEAR = {10: 0.0025, 20: 0.005}  # how far above the best a default run may end, by rank
RESAMPLES, FEWEST = 10, 11
SAME, AGAIN = 0.95, 0.9  # of stable phenotypes so many have so like a one from another seed,
FRESH = 0.9  # and so many one as like as this in patients that the study has not seen


def patients_of(name: str, root: Path) -> CountTensor:
    """The patients of a data set in one place."""
    if name == "planted-hard":
        network = synthetic_network(planted_hard_settings(0))
        tensors = [CountTensor.from_events(hospital.events) for hospital in network.hospitals]
        axes = align_plainly([tensor.axes for tensor in tensors])
        return pooled([tensor.on_axes(axes) for tensor in tensors]).drop_unused()
    if name == "uci":
        made = cohort_of("uci", root / "uci-diabetes-130-dev", 0)
        return pooled(list(made.tensors.values())).drop_unused()
    source, folder, rule = SOURCES[name]
    with tempfile.TemporaryDirectory() as out:
        ingest(source, str(root / folder), Path(out) / "site", IngestSettings(rule=rule))
        whole = CountTensor.from_events(read_events(Path(out) / "site" / "events.parquet"))
    return whole.drop_unused()


def found_in(tensor: CountTensor, settings: SolverSettings) -> Solution:
    """A fit whose warnings are counted elsewhere."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TriphenoWarning)
        return fit({"all": tensor}, settings)


def weighed(tensor: CountTensor, solution: Solution) -> Weighed:
    """Its grades, with the default number of resamples."""
    tensors = {"all": tensor}
    return weigh(
        in_clear(tensors), tensors, solution,
        generators=seeded_generators(solution.settings.seed), resamples=RESAMPLES, fewest=FEWEST,
    )  # fmt: skip


def best_of_long(tensor: CountTensor, settings: SolverSettings, kept: Path | None) -> float:
    """The lowest Ψ of 50 long uniform runs, from the file where it is known there."""
    key = f"{tensor.shape} {tensor.squared_norm:.0f} {settings.n_components} {settings.influence}"
    known = json.loads(kept.read_text("utf-8")) if kept and kept.exists() else {}
    if key not in known:
        long = replace(settings, starts=1, max_iter=LONG, tol=1e-9)
        seeds = range(10_000, 10_000 + LONG_RUNS)
        known[key] = min(found_in(tensor, replace(long, seed=seed)).objective for seed in seeds)
        if kept:
            kept.write_text(json.dumps(known, indent=1), "utf-8")
    return float(known[key])


def on_a_slope(tensor: CountTensor, solution: Solution) -> bool:
    """Whether the slopes of Ψ, made anew at its end, are longer than a converged run may have."""
    if solution.bound is not None:
        tensor = with_bound(tensor, solution.bound)
    _, made = slopes(HospitalState(tensor, solution.settings), solution.factors)
    none = [FactorPenalty()] * len(solution.factors)
    return steepest(solution.factors, made, none) > Tolerances.kkt


def silent(solution: Solution) -> bool:
    """Whether components hold nothing and no note says so."""
    empty = (solution.weights <= EMPTY * solution.weights.max(initial=0.0)).any()
    return bool(empty) and not any("lost" in note for note in solution.notes)


def stable(one: Weighed) -> np.ndarray:
    """Which phenotypes are graded stable."""
    return np.array([grade.grade == "stable" for grade in one.grades])


def measured(
    name: str, root: Path, rank: int, seeds: int, kept: Path | None
) -> Iterator[dict[str, Any]]:
    """A row for each kind of influence."""
    whole = patients_of(name, root)
    for influence in ("bounded", "none"):
        settings = SolverSettings(rank, "exact", influence=influence)  # type: ignore[arg-type]
        best = best_of_long(whole, settings, kept)
        runs = [found_in(whole, replace(settings, seed=seed)) for seed in range(seeds)]
        graded = [weighed(whole, run) for run in runs]
        above = [run.objective / best - 1.0 for run in runs]
        again = [
            match_components(one.factors, other.factors).similarity[stable(of_one)]
            for (one, of_one), (other, _) in pairwise(zip(runs, graded, strict=True))
        ]
        fresh = _on_fresh_halves(whole, settings, seeds)
        yield {
            "data": name, "shape": whole.shape, "rank": rank, "influence": influence,
            "seeds": seeds, "near": sum(one <= NEAR[rank] for one in above),
            "lowest": min(above), "highest": max(above),
            "converged": sum(run.converged for run in runs),
            "too_early": sum(run.converged and on_a_slope(whole, run) for run in runs),
            "silent": sum(map(silent, runs)),
            "iterations": float(np.median([run.iterations for run in runs])),
            "grades": [
                sum(grade.grade == kind for one in graded for grade in one.grades) / seeds
                for kind in ("stable", "partly", "unstable")
            ],
            "few": sum(
                grade.grade == "stable" and grade.effective_patients < FEWEST
                for one in graded for grade in one.grades
            ),
            "effective": float(np.median([one.effective for one in graded])),
            "again": _share(again, SAME),
            "fresh": _share(fresh, FRESH), "fresh_07": _share(fresh, 0.7),
            "stable_seen": sum(map(len, fresh)),
        }  # fmt: skip


def broken(row: dict[str, Any]) -> list[str]:
    """What should hold, and does not."""
    rules = {
        "near the best": row["near"] >= 0.9 * row["seeds"],
        "converged too early": row["too_early"] == 0,
        "lost without a word": row["silent"] == 0,
        "stable with few patients": row["few"] == 0,
        "again": row["again"] is None or row["again"] >= AGAIN,
        "fresh half": row["fresh"] is None or row["fresh"] >= AGAIN,
    }
    return [name for name, holds in rules.items() if not holds]


def _on_fresh_halves(whole: CountTensor, settings: SolverSettings, seeds: int) -> list[np.ndarray]:
    """How alike stable phenotypes of one half of the patients are to those of the other half."""
    found = []
    for seed in range(seeds):
        order = np.random.default_rng(seed).permutation(whole.patients)
        parts = [whole.select_patients(np.sort(part)) for part in np.array_split(order, 2)]
        one, other = (found_in(part, replace(settings, seed=seed)) for part in parts)
        alike = match_components(one.factors, other.factors).similarity
        found.append(alike[stable(weighed(parts[0], one))])
    return found


def _share(found: list[np.ndarray], least: float) -> float | None:
    values = np.concatenate(found) if found else np.zeros(0)
    return float((values >= least).mean()) if values.size else None


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.0f} %"


def line(row: dict[str, Any]) -> str:
    """A row of the table."""
    grades = " / ".join(f"{one:.1f}" for one in row["grades"])
    return (
        f"| {row['data']} | {row['rank']} | {row['influence']} | {row['near']} of {row['seeds']} | "
        f"{100 * row['lowest']:+.2f} … {100 * row['highest']:+.2f} % | "
        f"{row['converged']} of {row['seeds']}, {row['too_early']} | {row['iterations']:.0f} | "
        f"{grades} | {row['effective']:.0f} | {_percent(row['again'])} | "
        f"{_percent(row['fresh'])} of {row['stable_seen']}, {_percent(row['fresh_07'])} | "
        f"{', '.join(broken(row)) or '–'} |"
    )


HEAD = (
    "| data | rank | influence | near the best | above it | converged, too early | iterations | "
    "stable / partly / unstable | effective patients | again ≥ 0.95 | fresh half ≥ 0.9, ≥ 0.7 | "
    "does not hold |\n|---|---:|---|---:|---|---:|---:|---|---:|---:|---:|---|"
)


def main() -> None:
    """The table, row by row."""
    words = argparse.ArgumentParser()
    words.add_argument("root", type=Path)
    words.add_argument("names", nargs="*", default=NAMES)
    words.add_argument("--rank", type=int, default=10, choices=sorted(NEAR))
    words.add_argument("--seeds", type=int, default=10)
    words.add_argument("--out", type=Path)
    words.add_argument("--kept", type=Path)
    asked = words.parse_args()
    print(HEAD, flush=True)
    for name in asked.names:
        for row in measured(name, asked.root, asked.rank, asked.seeds, asked.kept):
            print(line(row), flush=True)
            if asked.out:
                with asked.out.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
