"""One hospital's own patients, for eyes at that hospital: who has a phenotype, and their timeline.

Reads the site folder that `ui --site` names. Nothing of it is written, and only this machine asks.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tripheno.errors import NoSuchFile, SettingsError
from tripheno.records.events import read_events
from tripheno.report.cohorts import score
from tripheno.report.phenotypes import Phenotype

MOST_LISTED = 500


@dataclass(frozen=True)
class OwnPatients:
    """The patients of one site folder on a run's phenotypes."""

    run: Path
    site: Path

    def __post_init__(self) -> None:
        if not (self.site / "events.parquet").is_file():
            raise NoSuchFile(f"No events.parquet in {self.site}", fix="name a hospital's folder")

    @cached_property
    def _has(self) -> np.ndarray:
        return score(self.run, self.site).has

    @cached_property
    def _events(self) -> pa.Table:
        table = read_events(self.site / "events.parquet")
        text = {n: table[n].cast(pa.string()) for n in ("mode", "code", "label")}
        return pa.table({"patient": table["patient"], "time": table["time"], **text})

    def who(self, number: int) -> list[int]:
        """The hospital's own numbers of patients who have a phenotype."""
        if not 0 < number <= self._has.shape[1]:
            raise SettingsError("no such phenotype")
        return [int(n) for n in np.flatnonzero(self._has[:, number - 1])]

    def timeline(self, patient: int, phenotype: Phenotype) -> list[dict[str, Any]]:
        """A patient's events by day, each code once a day; those of the phenotype are marked."""
        if patient not in self.who(phenotype.number):
            raise SettingsError("no such patient with this phenotype")
        shown = {
            (mode, code.code): code.share
            for mode, codes in phenotype.codes.items()
            for code in codes
        }
        own = self._events.filter(pc.equal(self._events["patient"], patient))
        own = own.set_column(1, "day", own["time"].cast(pa.date32()))
        once = own.group_by(["day", "mode", "code"]).aggregate([("label", "max")])
        days: dict[str, list[dict[str, Any]]] = {}
        for row in once.to_pylist():
            name, share = row["label_max"] or row["code"], shown.get((row["mode"], row["code"]))
            day = "no date" if row["day"] is None else row["day"].isoformat()
            days.setdefault(day, []).append({"mode": row["mode"], "name": name, "share": share})
        return [
            {"day": day, "events": sorted(found, key=lambda e: (-(e["share"] or 0.0), e["name"]))}
            for day, found in sorted(days.items())
        ]
