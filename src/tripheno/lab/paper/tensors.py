"""The tensors of the experiments: synthetic ones of the paper's sizes, or a database's own."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa

from tripheno.errors import SettingsError
from tripheno.lab.paper.plan import PaperSettings
from tripheno.lab.synthetic.network import SyntheticNetwork, synthetic_network
from tripheno.lab.synthetic.presets import seed_windows_settings, ucsd_settings
from tripheno.records.eicu import EICU
from tripheno.records.events import CountingRule, read_events
from tripheno.records.ingest import ingest
from tripheno.records.mimic import Mimic
from tripheno.records.source import IngestSettings, RecordSource
from tripheno.tensor.count_tensor import CountTensor

Say = Callable[[str], None]
CAP = 3  # as in the paper: larger counts are cut to three
LABS = ("medication", "lab")
DIAGNOSES = ("medication", "diagnosis")


class Tensors:
    """Patients × medications × abnormal labs by window, made when first asked for."""

    def __init__(self, settings: PaperSettings, say: Say) -> None:
        self.settings, self.say = settings, say
        self._events: pa.Table | None = None
        self._made: dict[str, CountTensor] = {}

    def __getitem__(self, window: str) -> CountTensor:
        if window not in self._made:
            rule = CountingRule(LABS, window, CAP)
            if self._events is None:
                self.say("making the records")
                self._events = self._read(rule)
            tensor = CountTensor.from_events(self._events, rule=rule)
            if self.settings.data != "synthetic" and self.settings.scale < 1:
                tensor = _some_patients(tensor, self.settings)
            sizes = " × ".join(f"{size:,}" for size in tensor.shape)
            self.say(f"window {window}: {sizes}, {tensor.nonzeros:,} nonzeros")
            self._made[window] = tensor
        return self._made[window]

    def _read(self, rule: CountingRule) -> pa.Table:
        settings = self.settings
        if settings.data == "synthetic":
            wanted = seed_windows_settings(scale=settings.scale, seed=settings.seed)
            return synthetic_network(wanted).hospitals[0].events
        if settings.data != "mimic":
            raise SettingsError(
                f"{settings.data} data does not fit the paper's grids",
                why="they need medications and abnormal labs with their times",
                fix="--data mimic PATH, or synthetic",
            )
        (events,) = _ingested(Mimic(), settings.path, IngestSettings(rule=rule)).values()
        return events


def _some_patients(tensor: CountTensor, settings: PaperSettings) -> CountTensor:
    count = max(1, round(settings.scale * tensor.patients))
    drawn = np.random.default_rng(settings.seed).permutation(tensor.patients)[:count]
    return tensor.select_patients(np.sort(drawn))


def _ingested(
    source: RecordSource, path: Path | None, settings: IngestSettings
) -> dict[str, pa.Table]:
    """The events of a database by hospital; what is written on the way is removed again."""
    with tempfile.TemporaryDirectory() as folder:
        site = Path(folder) / "site"
        found = ingest(source, str(path), site, settings)
        if found.by is None:
            return {source.name: read_events(site / "events.parquet")}
        return {one.parent.name: read_events(one) for one in sorted(site.glob("*/events.parquet"))}


def hospitals_of(
    settings: PaperSettings, repeat: int
) -> tuple[dict[str, CountTensor], SyntheticNetwork | None]:
    """Hospitals of different case mix for naming phenotypes, and the truth where it is known.

    Synthetic: the two of the paper in full, other patients in every repeat. eICU: its regions.
    MIMIC-III is one hospital: two random halves of its patients.
    """
    if settings.data == "synthetic":
        network = synthetic_network(ucsd_settings(settings.seed + repeat))
        tensors = {h.name: CountTensor.from_events(h.events) for h in network.hospitals}
        return tensors, network
    if settings.data == "uci":
        raise SettingsError("the UCI data names no hospitals", fix="it is for `paper downstream`")
    rule = CountingRule(DIAGNOSES, "visit")
    if settings.data == "eicu":
        by_region = IngestSettings(rule=rule, by="region")
        events = _ingested(EICU(), settings.path, by_region)
        return {name: CountTensor.from_events(table) for name, table in events.items()}, None
    (table,) = _ingested(Mimic(), settings.path, IngestSettings(rule=rule)).values()
    whole = CountTensor.from_events(table)
    order = np.random.default_rng([settings.seed, repeat]).permutation(whole.patients)
    parts = np.array_split(order, 2)
    names = ("half-1", "half-2")
    return {name: whole.select_patients(p) for name, p in zip(names, parts, strict=True)}, None
