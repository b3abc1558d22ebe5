"""Age, sex, year and outcome of a hospital's patients as groups, for tables of who has what.

Read at home from ``local/attributes.parquet`` and the events' times. Ages and years are coarse on
purpose, and the same for every hospital, so that counts can be added.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tripheno.errors import UnreadableTable
from tripheno.records.site_folder import ATTRIBUTES, EVENTS, LOCAL

UNKNOWN = "not known"
AGES, YEARS = (0, 18, 40, 65, 80, 400), (1900, 2010, 2015, 2020, 2040)
TRAITS: dict[str, tuple[str, ...]] = {
    "age": ("0–17", "18–39", "40–64", "65–79", "80 and over", UNKNOWN),
    "sex": ("female", "male", UNKNOWN),
    "year": ("before 2010", "2010–2014", "2015–2019", "2020 and later", UNKNOWN),
    "outcome": ("died", "did not die", UNKNOWN),
}
GROUPS = sum(map(len, TRAITS.values()))


def nothing_known(patients: int) -> np.ndarray:
    """Traits of patients of whom no attributes are kept."""
    return np.tile([len(names) - 1 for names in TRAITS.values()], (patients, 1))


def read_traits(site: Path, patients: int) -> np.ndarray:
    """Patients × traits: the place of each patient's group in :data:`TRAITS`.

    Age and year are those of the patient's last dated event, or the age is that at admission where
    a source has no more; ages of 300, by which some sources hide the very old, are old. A year in
    the far future is a shifted one, and one without a year of birth may be made up, as eICU's are:
    neither is known.
    """
    source, found = site / LOCAL / ATTRIBUTES, nothing_known(patients)
    if not source.is_file():
        return found
    try:
        rows = pq.read_table(source).filter(pc.field("patient") < patients)
        who = rows["patient"].to_numpy()
        last = _last_years(site / EVENTS, patients)
        born = _numbers(rows["birth_year"])
        aged = _numbers(rows["age"]) if "age" in rows.column_names else np.full(len(who), np.nan)
        died = _numbers(rows["died"].cast(pa.int8()))
        sexes = rows["sex"].to_pylist()
    except (OSError, KeyError, pa.ArrowException) as fault:
        raise UnreadableTable(
            f"{source.name} cannot be read", why=type(fault).__name__, fix="ingest again"
        ) from None
    found[who, 0] = _bands(np.where(np.isnan(born), aged, last[who] - born), AGES)
    found[who, 1] = [TRAITS["sex"].index(sex) if sex in ("female", "male") else 2 for sex in sexes]
    found[who, 2] = _bands(np.where(np.isnan(born), np.nan, last[who]), YEARS)
    found[who, 3] = np.where(np.isnan(died), 2, np.where(died > 0, 0, 1))
    return found


def _last_years(events: Path, patients: int) -> np.ndarray:
    """The year of each patient's last dated event, NaN where none is."""
    years = np.full(patients, np.nan)
    if "time" not in pq.read_schema(events).names:
        return years
    table = pq.read_table(events, columns=["patient", "time"])
    last = table.group_by("patient").aggregate([("time", "max")])
    years[last["patient"].to_numpy()] = _numbers(pc.year(last["time_max"]))
    return years


def _numbers(column: pa.ChunkedArray) -> np.ndarray:
    """A column as numbers, NaN where there is none."""
    return np.asarray(column.cast(pa.float64()).to_numpy(zero_copy_only=False))


def _bands(values: np.ndarray, edges: tuple[int, ...]) -> np.ndarray:
    """The band each value falls into; the last one where it falls into none."""
    bands = np.full(len(values), len(edges) - 1)
    for place, (low, high) in enumerate(pairwise(edges)):
        bands[(values >= low) & (values < high)] = place
    return bands
