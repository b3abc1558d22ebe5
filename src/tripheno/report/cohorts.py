"""New patients on a finished run's phenotypes: memberships, and cohorts in OMOP's form."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tripheno.errors import NoSuchFile, OutputExists, RunNotFound
from tripheno.evaluation.membership import members
from tripheno.files import csv_text, owners_folder, whole_file, write_text
from tripheno.records.events import read_events
from tripheno.report.annotations import groups
from tripheno.report.phenotypes import Phenotype
from tripheno.report.rule import RULE
from tripheno.report.run_folder import read_report, read_summary, shown_folder
from tripheno.solver.frozen import FrozenPhenotypes
from tripheno.solver.losses import loss_of
from tripheno.solver.settings import SolverSettings
from tripheno.tensor.count_tensor import CountTensor
from tripheno.tensor.reading import read_tensor
from tripheno.vocabulary.axis import Axis

MEMBERSHIPS, COHORT, DEFINITIONS = "memberships.parquet", "cohort.csv", "cohort_definition.csv"


@dataclass(frozen=True)
class Scored:
    """Patients of one hospital on frozen phenotypes. It stays where it was made."""

    memberships: np.ndarray
    has: np.ndarray  # patients × phenotypes
    unknown: dict[str, tuple[int, int]]
    dates: pa.Table | None  # patient, mode, code, time


def read_frozen(folder: Path) -> FrozenPhenotypes:
    """The phenotypes of a run folder, from ``factors/*.parquet``."""
    folder = shown_folder(folder)
    summary = read_summary(folder)
    axes, factors, biases = [], [], []
    for mode in summary["modes"][1:]:
        path = folder / "factors" / f"{mode}.parquet"
        try:
            table = pq.read_table(path)
            names = [f"component_{r + 1}" for r in range(summary["rank"])]
            factors.append(np.column_stack([table[name].to_numpy() for name in names]))
        except (OSError, KeyError, pa.ArrowException):
            raise RunNotFound(f"{path} cannot be read", fix="is the run folder complete?") from None
        codes = tuple(table["code"].to_pylist()) if "code" in table.column_names else None
        axes.append(Axis(mode, table.num_rows, codes))
        if "bias" in table.column_names:
            biases.append(table["bias"].to_numpy())
    settings = SolverSettings(
        summary["rank"], constraint=summary["constraint"], loss=summary.get("loss", "squared")
    )
    return FrozenPhenotypes(tuple(axes), tuple(factors), loss_of(settings), tuple(biases) or None)


def score(folder: Path, events: Path) -> Scored:
    """Memberships of the patients in an event table (or cells, or a tensor) on a run's phenotypes.

    Reads the run's released factors and this hospital's file, and nothing else.
    """
    frozen = read_frozen(folder)
    if not events.exists():
        raise NoSuchFile(f"No file {events}", fix="name a site folder or an event table")
    tensor = read_tensor(events)
    unknown = frozen.unknown_codes(tensor)
    rows = frozen.memberships(tensor)
    has = members(tensor.on_axes(frozen.axes), frozen.factors, frozen.loss)
    return Scored(rows, has, unknown, _dated(events, tensor))


def _dated(events: Path, tensor: CountTensor) -> pa.Table | None:
    """The events with their times, where the source is an event table that has them."""
    path = events / "events.parquet" if events.is_dir() else events
    if path.suffix != ".parquet" or "time" not in pq.read_schema(path).names:
        return None
    table = read_events(path)
    if table["time"].null_count == table.num_rows:
        return None
    text = {name: table[name].cast(pa.string()) for name in ("mode", "code")}
    kept = pa.table({"patient": table["patient"], **text, "time": table["time"]})
    return kept.filter(pc.is_in(kept["mode"], pa.array(list(tensor.modes))))


def write_scored(folder: Path, scored: Scored, run: Path) -> dict[str, Any]:
    """Memberships and cohorts in a folder that only its owner may open; and what was written."""
    if folder.exists() and (not folder.is_dir() or _foreign(folder)):
        raise OutputExists(f"{folder} holds something else", fix="name another folder with --out")
    owners_folder(folder)
    kept = groups(read_report(run).phenotypes)
    columns: dict[str, Any] = {"patient": np.arange(len(scored.memberships))}
    columns |= {f"component_{r + 1}": column for r, column in enumerate(scored.memberships.T)}
    with whole_file(folder / MEMBERSHIPS) as stream:
        pq.write_table(pa.table(columns), stream)
    cohorts = [(p, cohort_rows(p, scored, under)) for p, under in kept]
    rows = [row for _, found in cohorts for row in found]
    heading = ["cohort_definition_id", "subject_id", "cohort_start_date", "cohort_end_date"]
    write_text(folder / COHORT, csv_text([heading, *rows]), private=True)
    heading = [f"cohort_definition_{name}" for name in ("id", "name", "description")]
    named = [[p.number, p.title, f"{p.words}: {RULE}"] for p, _ in kept]
    write_text(folder / DEFINITIONS, csv_text([heading, *named]), private=True)
    summary = {
        "patients": len(scored.memberships),
        "patients_with_a_phenotype": len({row[1] for row in rows}),
        "cohort_rows": len(rows),
        "dated": scored.dates is not None,
        "rule": RULE,
        "unknown_codes": {
            mode: {"unknown": unknown, "of": of} for mode, (unknown, of) in scored.unknown.items()
        },
        "phenotypes": [
            {"phenotype": p.number, "title": p.title, "patients": len(found)}
            for p, found in cohorts
        ],
    }  # fmt: skip
    text = json.dumps(summary, indent=2, ensure_ascii=False) + "\n"
    write_text(folder / "scored.json", text, private=True)
    return summary


def cohort_rows(
    phenotype: Phenotype, scored: Scored, under: Sequence[Phenotype] = ()
) -> list[list[Any]]:
    """One row per patient who has a phenotype, with the first and last day of its shown codes.

    ``under`` are the phenotypes that count as this one, itself among them. A patient without a
    dated shown code gets the days of all dated events; without any times both dates stay empty.
    """
    under = under or [phenotype]
    members = np.flatnonzero(scored.has[:, [p.number - 1 for p in under]].any(axis=1))
    if scored.dates is None:
        return [[phenotype.number, int(patient), "", ""] for patient in members]
    dates = scored.dates.filter(pc.is_in(scored.dates["patient"], pa.array(members)))
    every = _spans(dates)
    shown = pa.concat_tables(
        dates.filter(
            pc.and_(
                pc.equal(dates["mode"], mode),
                pc.is_in(dates["code"], pa.array([c.code for c in ranked], pa.string())),
            )
        )
        for one in under
        for mode, ranked in one.codes.items()
    )
    spans = {**every, **_spans(shown)}
    return [[phenotype.number, int(p), *spans.get(int(p), ("", ""))] for p in members]


def _spans(dates: pa.Table) -> dict[int, tuple[str, str]]:
    known = dates.filter(pc.is_valid(dates["time"]))
    spans = known.group_by("patient").aggregate([("time", "min"), ("time", "max")]).to_pylist()
    return {
        row["patient"]: (row["time_min"].date().isoformat(), row["time_max"].date().isoformat())
        for row in spans
    }


def _foreign(folder: Path) -> bool:
    """Whether a folder holds anything that an earlier scoring did not write."""
    ours = {MEMBERSHIPS, COHORT, DEFINITIONS, "scored.json"}
    return any(path.name not in ours for path in folder.iterdir())
