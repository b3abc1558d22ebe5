"""For data scientists: AnnData (scanpy, ehrapy) and MEDS."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from tripheno.errors import MissingExtra, NoSuchFile
from tripheno.files import write_text
from tripheno.report.cohorts import COHORT, MEMBERSHIPS
from tripheno.report.exports.chosen import Source
from tripheno.report.exports.tables import arrow_of, evidence_rows


def write_anndata(source: Source, out: Path) -> list[Path]:
    """``phenotypes.h5ad``: phenotypes × codes; of scored patients also patients × phenotypes."""
    try:
        from anndata import AnnData  # noqa: PLC0415  an extra
        from pandas import DataFrame  # noqa: PLC0415
    except ImportError:
        raise MissingExtra(
            "AnnData is not installed", fix="pip install 'tripheno[export]'"
        ) from None
    heading, *rows = evidence_rows(source.report.phenotypes)
    about = arrow_of([heading, *rows]).to_pandas()
    about.index = [str(row[0]) for row in rows]
    columns, weights = _codes(source)
    names = [f"{mode}:{code}" for mode, code in zip(columns["mode"], columns["code"], strict=True)]
    made = AnnData(weights.T, obs=about, var=DataFrame(columns, index=names))
    made.uns["tripheno"] = {
        "run": source.report.annotations.run, "method": source.run["method"],
        "version": source.run["tripheno"],
    }  # fmt: skip
    made.write_h5ad(out / "phenotypes.h5ad")
    if source.wanted.scored is None:
        return [out / "phenotypes.h5ad"]
    table = _scored(source.wanted.scored / MEMBERSHIPS)
    patients = table["patient"].to_numpy()
    matrix = np.column_stack([table[f"component_{row[0]}"].to_numpy() for row in rows])
    people = DataFrame({"patient": patients}, index=[str(p) for p in patients])
    AnnData(matrix, obs=people, var=about).write_h5ad(out / "patients.h5ad")
    return [out / "phenotypes.h5ad", out / "patients.h5ad"]


def _codes(source: Source) -> tuple[dict[str, list[Any]], np.ndarray]:
    """Every code of every mode, and its weight in every phenotype (codes × phenotypes)."""
    columns: dict[str, list[Any]] = {"mode": [], "code": [], "label": []}
    weights = []
    for mode in source.run["modes"][1:]:
        table = pq.read_table(source.folder / "factors" / f"{mode}.parquet")
        known = "code" in table.column_names
        codes = table["code" if known else "position"].to_pylist()
        labels = table["label"].to_pylist() if known else [None] * len(codes)
        columns["mode"] += [mode] * len(codes)
        columns["code"] += [str(code) for code in codes]
        columns["label"] += [label or str(code) for label, code in zip(labels, codes, strict=True)]
        names = [f"component_{p.number}" for p in source.report.phenotypes]
        weights.append(np.column_stack([table[name].to_numpy() for name in names]))
    return columns, np.vstack(weights)


def write_meds(source: Source, out: Path) -> list[Path]:
    """A MEDS dataset: phenotypes as codes; of scored patients, one dated event for each cohort row.

    ``subject_id`` is the event table's patient; rows without a date are static (no time).
    """
    run = source.report.annotations.run
    code_of = {one.phenotype.number: f"TRIPHENO//{run}//{one.phenotype.number}"
               for one in source.chosen()}  # fmt: skip
    (out / "metadata").mkdir(exist_ok=True)
    described = pa.table(
        {
            "code": pa.array(list(code_of.values()), pa.string()),
            "description": pa.array([one.phenotype.title for one in source.chosen()], pa.string()),
            "parent_codes": pa.array(
                [[c.code for codes in one.codes.values() for c in codes if c.code]
                 for one in source.chosen()], pa.list_(pa.string())
            ),
        }
    )  # fmt: skip
    pq.write_table(described, out / "metadata" / "codes.parquet")
    about = {"dataset_name": f"tripheno run {run}", "etl_name": "tripheno export",
             "etl_version": source.run["tripheno"], "meds_version": "0.4.1"}  # fmt: skip
    write_text(out / "metadata" / "dataset.json", json.dumps(about, indent=2) + "\n")
    written = [out / "metadata" / "codes.parquet", out / "metadata" / "dataset.json"]
    if source.wanted.scored is not None:
        (out / "data").mkdir(exist_ok=True)
        path = out / "data" / "0.parquet"
        pq.write_table(_events(source.wanted.scored / COHORT, code_of), path)
        written.append(path)
    return written


def _events(path: Path, code_of: dict[int, str]) -> pa.Table:
    """Cohort rows as MEDS events, sorted by subject and time, static ones first."""
    if not path.is_file():
        raise _not_scored(path)
    table = pyarrow.csv.read_csv(path)
    numbers = table["cohort_definition_id"].to_pylist()
    kept = pa.array([number in code_of for number in numbers], pa.bool_())
    table = table.filter(kept)
    codes = [code_of[number] for number in table["cohort_definition_id"].to_pylist()]
    events = pa.table(
        {
            "subject_id": table["subject_id"].cast(pa.int64()),
            "time": table["cohort_start_date"].cast(pa.timestamp("us")),
            "code": pa.array(codes, pa.string()),
            "numeric_value": pa.nulls(len(codes), pa.float32()),
        }
    )
    dated = zip(events["subject_id"].to_pylist(), events["time"].to_pylist(), strict=True)
    keys = [(who, when is not None, when or datetime.min) for who, when in dated]
    return events.take(sorted(range(len(keys)), key=keys.__getitem__))


def _scored(path: Path) -> pa.Table:
    if not path.is_file():
        raise _not_scored(path)
    return pq.read_table(path)


def _not_scored(path: Path) -> NoSuchFile:
    return NoSuchFile(f"No {path.name} in {path.parent}", fix="make it with tripheno transform")
