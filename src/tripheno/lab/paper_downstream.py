"""The downstream check of one data set, kept as ``downstream.json`` and ``downstream.csv``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from tripheno.errors import SettingsError
from tripheno.lab.downstream import CrossValidation, Usefulness, usefulness
from tripheno.lab.paper.ledger import append_lines, write_json
from tripheno.lab.paper.outcomes import WORDS, cohort_of
from tripheno.lab.paper.plan import PaperSettings
from tripheno.provenance import provenance
from tripheno.solver.settings import SolverSettings

COLUMNS = ("data", *Usefulness.__dataclass_fields__)
STARTS = 4  # for every set of phenotypes, in every fold


def run_downstream(folder: Path, settings: PaperSettings, say: Callable[[str], None]) -> None:
    """Predict the outcome of an open data set from phenotypes and from raw codes."""
    if settings.path is None:
        raise SettingsError(
            "synthetic patients have no outcome",
            fix="tripheno paper downstream PATH --data mimic, eicu or uci",
        )
    cohort = cohort_of(settings.data, settings.path, settings.seed)
    patients = {name: len(outcome) for name, outcome in cohort.outcomes.items()}
    came = {name: int(outcome.sum()) for name, outcome in cohort.outcomes.items()}
    say(f"{settings.data}: {sum(patients.values()):,} patients, {sum(came.values()):,} outcomes")
    chosen = SolverSettings(
        settings.rank,
        seed=settings.seed,
        starts=STARTS,
        max_iter=settings.max_iter,
    )
    plan = CrossValidation(repeats=settings.repeats, seed=settings.seed)
    found = usefulness(cohort, chosen, plan, say)
    words = (
        f"{WORDS[settings.data]} {sum(patients.values()):,} patients, {sum(came.values()):,} with "
        f"the outcome; {settings.rank} phenotypes; {plan.folds}-fold cross-validation, "
        f"{plan.repeats} times, phenotypes found inside the folds; AUC within hospitals, 95 % "
        "intervals by drawing patients again, the same ones for every kind. All rows of a person "
        "are in one fold, at whatever hospital."
    )
    write_json(
        folder / "downstream.json",
        {
            **provenance({**settings.to_dict(), "repeats": settings.repeats}, {}),
            "words": words,
            "hospitals": list(patients),
            "rows": [asdict(one) for one in found],
        },
    )
    (folder / "downstream.csv").unlink(missing_ok=True)
    lines = [{"data": settings.data, **asdict(one)} for one in found]
    append_lines(folder / "downstream.csv", COLUMNS, lines)
