"""Open data with an outcome: in-hospital death (MIMIC-III, eICU), readmission (UCI)."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from tripheno.errors import NoSuchFile, SettingsError
from tripheno.lab.downstream import Cohort
from tripheno.records.eicu import EICU
from tripheno.records.events import CountingRule, read_events
from tripheno.records.flat import Flat
from tripheno.records.ingest import ingest
from tripheno.records.mimic import Mimic
from tripheno.records.source import IngestSettings, RecordSource
from tripheno.study.simulation import assemble
from tripheno.tensor.count_tensor import CountTensor

RULE = CountingRule(("medication", "diagnosis"), "visit")
UCI_HOSPITALS = 3  # the UCI data names none, so its patients are dealt out
WORDS = {
    "mimic": "MIMIC-III demo: death during an admission, patients dealt to two hospitals.",
    "eicu": "eICU demo: death during the hospital stay; hospitals are regions.",
    "uci": "UCI diabetes: readmission within 30 days of a patient's first encounter; those who "
    "died or went to a hospice are left out, patients are dealt to three hospitals.",
}
_GONE = (11, 13, 14, 19, 20, 21)  # UCI discharge dispositions: expired or hospice
_UCI_DRUGS = (
    "metformin", "repaglinide", "nateglinide", "chlorpropamide", "glimepiride", "acetohexamide",
    "glipizide", "glyburide", "tolbutamide", "pioglitazone", "rosiglitazone", "acarbose",
    "miglitol", "troglitazone", "tolazamide", "insulin", "glyburide-metformin",
    "glipizide-metformin",
)  # fmt: skip


def cohort_of(data: str, path: Path, seed: int) -> Cohort:
    """Hospitals and outcomes of one of the open data sets."""
    if data == "eicu":
        table = _read(path, "patient.csv.gz")
        died = _any_of(table, "uniquepid", pc.equal(table["hospitaldischargestatus"], "Expired"))
        return _with_outcomes(_sites(EICU(), path, IngestSettings(rule=RULE, by="region")), died)
    if data == "mimic":
        table = _read(path, "ADMISSIONS.csv.gz")
        died = _any_of(table, "subject_id", pc.equal(table["hospital_expire_flag"], 1))
        return _with_outcomes(_sites(Mimic(), path, IngestSettings(rule=RULE)), died, 2, seed)
    if data == "uci":
        return _uci(path, seed)
    raise SettingsError(f"no outcome is known for {data!r} data", fix="--data mimic, eicu or uci")


def _read(path: Path, name: str) -> pa.Table:
    found = path / name
    if not found.is_file():
        raise NoSuchFile(f"No file {name}", where=path.name, fix="name the folder of the tables")
    return pyarrow.csv.read_csv(found)


def _any_of(table: pa.Table, key: str, came: pa.ChunkedArray) -> dict[str, bool]:
    """Patient → whether the outcome came in any of the patient's rows."""
    keys = table[key].cast(pa.string()).to_pylist()
    found: dict[str, bool] = {}
    for patient, yes in zip(keys, pc.fill_null(came, False).to_pylist(), strict=True):
        found[patient] = found.get(patient, False) or bool(yes)
    return found


Sites = dict[str, tuple[CountTensor, list[str]]]


def _sites(source: RecordSource, path: Path, settings: IngestSettings) -> Sites:
    """Hospital → its tensor and its patients' own keys; nothing is left on disk."""
    with tempfile.TemporaryDirectory() as folder:
        site = Path(folder) / "site"
        found = ingest(source, str(path), site, settings)
        folders = [site] if found.by is None else sorted(p.parent for p in site.glob("*/local"))
        return {one.name: _site(one) for one in folders}


def _site(folder: Path) -> tuple[CountTensor, list[str]]:
    """A tensor without the patients that have no cell, and the keys of the others."""
    tensor = CountTensor.from_events(read_events(folder / "events.parquet"))
    table = pq.read_table(folder / "local" / "patients.parquet").sort_by("patient")
    keys = table["key"].to_pylist()
    busy = np.flatnonzero(np.diff(tensor.cells.starts))
    return tensor.select_patients(busy), [keys[row] for row in busy]


def _with_outcomes(
    sites: Sites, came: Mapping[str, bool], deal: int | None = None, seed: int = 0
) -> Cohort:
    """Hospitals on common axes with their outcomes; one hospital can be dealt to several."""
    tensors = {name: tensor for name, (tensor, _) in sites.items()}
    people = {name: keys for name, (_, keys) in sites.items()}
    outcomes = {
        name: np.array([came.get(key, False) for key in keys], dtype=bool)
        for name, (_, keys) in sites.items()
    }
    if deal is not None:
        ((whole, outcome),) = zip(tensors.values(), outcomes.values(), strict=True)
        parts = np.array_split(np.random.default_rng(seed).permutation(whole.patients), deal)
        names = [f"hospital-{k + 1}" for k in range(deal)]
        tensors = {n: whole.select_patients(p) for n, p in zip(names, parts, strict=True)}
        outcomes = {n: outcome[p] for n, p in zip(names, parts, strict=True)}
        people = {}  # dealt out: nobody is at two
    return Cohort(assemble(tensors, seed=seed).tensors, outcomes, people)


def _uci(path: Path, seed: int) -> Cohort:
    """First encounters only: a patient who comes again would give the outcome away."""
    table = _read(path, "diabetic_data.csv.gz").sort_by("encounter_id")
    _, first = np.unique(table["patient_nbr"].to_numpy(), return_index=True)
    table = table.take(np.sort(first))
    gone = pc.is_in(table["discharge_disposition_id"], pa.array(_GONE))
    table = table.filter(pc.invert(gone))
    came = _any_of(table, "patient_nbr", pc.equal(table["readmitted"], "<30"))
    with tempfile.TemporaryDirectory() as folder:
        pyarrow.csv.write_csv(table, Path(folder) / "first.csv")
        mapping = Path(folder) / "site.toml"
        mapping.write_text(_uci_mapping(), encoding="utf-8")
        settings = IngestSettings(rule=RULE, mapping=mapping)
        return _with_outcomes(_sites(Flat(), Path(folder), settings), came, UCI_HOSPITALS, seed)


def _uci_mapping() -> str:
    """How the UCI table's columns become events."""
    drugs = ", ".join(f'"{drug}"' for drug in _UCI_DRUGS)
    common = 'file = "first.csv"\npatient = "patient_nbr"\nvisit = "encounter_id"\n'
    return (
        f'[[source.tables]]\n{common}mode = "diagnosis"\nsystem = "ICD9CM"\n'
        'code = ["diag_1", "diag_2", "diag_3"]\n\n'
        f'[[source.tables]]\n{common}mode = "medication"\nabsent = ["No"]\nflags = [{drugs}]\n'
    )
