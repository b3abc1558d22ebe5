"""`site.toml`: what one hospital decides for itself and shows to nobody."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from tripheno.errors import BadSiteSettings, ThresholdTooLow
from tripheno.protocol.agreed import StudyProtocol
from tripheno.protocol.limits import Thresholds
from tripheno.protocol.settings_file import (
    Layer,
    SettingsFile,
    fingerprint_text,
    one_of,
    text,
    whole,
)
from tripheno.records.mapping import read_mapping

CELL = "min_cell_count"
EngineName = Literal["processes", "ray"]
ENGINES: tuple[EngineName, ...] = get_args(EngineName)
MOST_TIMES = 10  # a hospital may be so many times as strict as the study, for all


@dataclass(frozen=True)
class Site:
    """One hospital's own settings. Paths are absolute."""

    name: str
    events: Path  # the folder that `ingest` wrote
    min_cell_count: int | None = None  # None: as the study says
    min_site_patients: int | None = None
    identity: Path = Path("keys/hospital.key")  # Ed25519, private, PEM
    officer: str = ""  # fingerprint of the key whose approvals count here
    approval: Path = Path("approved")  # manifest and approval
    state: Path = Path("state")  # checkpoints and the audit log
    shards: int = 1  # processes or machines that share its patients
    engine: EngineName = "processes"  # where they run

    def run_folder(self, run: str) -> Path:
        """Where this hospital keeps what it knows of a run."""
        return self.state / "runs" / run

    def thresholds(self, protocol: StudyProtocol) -> Thresholds:
        """The thresholds that hold here: the stricter one of a cell, its own for its patients.

        A code's people are counted over the network: a stricter hospital announces its threshold,
        and the strictest one holds for all. One far from the study's is refused by the others.
        """
        agreed = protocol.thresholds
        cell = max(agreed.min_cell_count, self.min_cell_count or 0)
        if cell > MOST_TIMES * agreed.min_cell_count:
            raise ThresholdTooLow(
                f"the study keeps codes of {agreed.min_cell_count} people, this hospital wants "
                f"{cell}",
                where=f"thresholds.{CELL}",
                fix="ask the coordinator to raise it in federation.toml, or lower it in site.toml",
            )
        return Thresholds(cell, self.min_site_patients or agreed.min_site_patients)


def read_site(path: Path, layers: Sequence[Layer] = ()) -> Site:
    """A hospital's own settings, or every fault in them at once."""
    file = SettingsFile(path, BadSiteSettings, layers)
    site = Site(
        name=file.need("hospital.name", text, ""),
        events=_path(file, "hospital.events", "events"),
        min_cell_count=file.take("thresholds.min_cell_count", whole(1), 0) or None,
        min_site_patients=file.take("thresholds.min_site_patients", whole(1), 0) or None,
        identity=_path(file, "keys.identity", "keys/hospital.key"),
        officer=file.take("keys.officer", fingerprint_text, ""),
        approval=_path(file, "folders.approval", "approved"),
        state=_path(file, "folders.state", "state"),
        shards=file.take("shards.number", whole(1), 1),
        engine=file.take("shards.engine", one_of(ENGINES), "processes"),
    )
    if file.count("source.tables"):
        file.leave("source")
        try:
            read_mapping(path)
        except BadSiteSettings as fault:
            file.fault("source", fault.what)
    file.finish()
    return site


def _path(file: SettingsFile, key: str, default: str) -> Path:
    """A path of this machine; a relative one starts at the file's own folder."""
    return file.folder / file.take(key, text, default)
