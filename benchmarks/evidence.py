"""Do the phenotypes of open data hold? ``python -m benchmarks.evidence DATA [SEEDS] [NAME ...]``

DATA is the folder of the open EHR data. For every data set and both kinds of influence: how far the
default tournament ends above the best of 50 long uniform runs, its rounds, and the grades of the
phenotypes of seed 0. Prints a Markdown table.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections import Counter
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from tripheno.evaluation.grades import graded, likeness, near_best
from tripheno.evaluation.intervals import bootstrap_weights
from tripheno.exchange.communicator import in_clear
from tripheno.records.eicu import EICU
from tripheno.records.events import CountingRule, read_events
from tripheno.records.ingest import ingest
from tripheno.records.mimic import Mimic
from tripheno.records.omop import OMOP
from tripheno.records.source import IngestSettings
from tripheno.solver import influence, stacked, starts, tournament
from tripheno.tensor.count_tensor import CountTensor
from tripheno.testing.adding import Adding

DIAGNOSES, LABS = ("medication", "diagnosis"), ("medication", "lab")
DATA = {
    "mimic-dx": (Mimic(), "mimic-iii-demo-1.4", CountingRule(DIAGNOSES, "visit")),
    "mimic-lab": (Mimic(), "mimic-iii-demo-1.4", CountingRule(LABS, "visit")),
    "eicu": (EICU(), "eicu-demo-2.0.1-dev", CountingRule(DIAGNOSES, "visit")),
    "synthea": (OMOP(), "synthea1k-omop", CountingRule(DIAGNOSES, "person")),
}
RANK, HOSPITALS, REPLICATES, MIN_CELL = 10, 3, 20, 11
LONG, ABREAST = 150, 10


def hospitals_of(name: str, root: Path) -> list[CountTensor]:
    """The patients of a data set, dealt to three hospitals: sums do not depend on how."""
    source, folder, rule = DATA[name]
    with tempfile.TemporaryDirectory() as out:
        ingest(source, str(root / folder), Path(out) / "site", IngestSettings(rule=rule))
        whole = CountTensor.from_events(read_events(Path(out) / "site" / "events.parquet"))
    whole = whole.drop_unused()
    order = np.random.default_rng(0).permutation(whole.patients)
    return [whole.select_patients(np.sort(part)) for part in np.array_split(order, HOSPITALS)]


def best_uniform(adding: Adding, runs: int = 50) -> float:
    """Ψ of the best of so many long runs from uniform starts."""
    found = []
    for first in range(0, runs, ABREAST):
        numbers = range(first, first + ABREAST)
        models = [starts.uniform_start(adding.tensors[0].axes, RANK, 10_000, k) for k in numbers]
        for _ in range(LONG):
            models, objectives, _ = adding.iteration(models)
        found += list(objectives)
    return min(found)


def grades(adding: Adding) -> Counter[str]:
    """Of the default run of seed 0: bootstrap from its end, and its finalists."""
    root = adding.root(RANK, 0)
    match = last = tournament.opened(adding.tensors[0].axes, root, RANK, 0)
    while not match.over:
        last = match
        found, objectives, costs = adding.iteration(match.models)
        own = tournament.votes(match, objectives, costs)
        decision = tournament.decided(match, own, 1)
        match = tournament.after(match, found, objectives, decision)
    end = adding.to_the_end(match.best.momentum.factors)[0].factors
    finalists = [one.momentum for one in last.contestants]
    near = [finalists[n].factors for n in near_best([one.objective for one in finalists])]
    drawn = [
        bootstrap_weights(b"benchmark %d" % k, tensor.patients, REPLICATES)
        for k, tensor in enumerate(adding.tensors)
    ]
    resampled, models = Adding(adding.tensors, drawn), [end] * REPLICATES
    for _ in range(12):
        models, _, _ = resampled.iteration(models)
    parts = [
        influence.effective_parts(stacked.fit_patients(t, [end])[0], t.cells.weights)
        for t in adding.tensors
    ]
    effective = influence.effective_patients(np.sum(parts, axis=0))
    result = graded(likeness(end, models), likeness(end, near), effective, MIN_CELL)
    return Counter(one.grade for one in result)


def main(words: list[str]) -> None:
    root, seeds = Path(words[0]), int(words[1]) if len(words) > 1 else 10
    print("| data | influence | within 0.25 % | worst | rounds | stable / partly / unstable |")
    print("|---|---|---:|---:|---:|---|")
    for name in words[2:] or DATA:
        tensors = hospitals_of(name, root)
        named = {str(n): tensor for n, tensor in enumerate(tensors)}
        bound = influence.common_bound(in_clear(named), "", named)
        for kind in ("bounded", "none"):
            own = tensors
            if kind == "bounded":
                own = [t.with_weights(influence.influence_weights(t, bound)) for t in tensors]
            best, above, rounds = best_uniform(Adding(own)), [], []
            for seed in range(seeds):
                adding = Adding(own)
                above.append(adding.fit(RANK, seed)[0].objective / best - 1.0)
                rounds.append(adding.rounds)
            found = grades(Adding(own))
            near = sum(one <= 0.0025 for one in above)
            print(
                f"| {name} | {kind} | {near} of {seeds} | {100 * max(above):+.2f} % | "
                f"{np.median(rounds):.0f} | {found['stable']} / {found['partly']} / "
                f"{found['unstable']} |",
                flush=True,
            )


if __name__ == "__main__":
    main(sys.argv[1:])
