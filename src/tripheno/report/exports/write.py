"""``tripheno export``: one run in one of the formats people use."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from tripheno.errors import OutputExists, SettingsError, TriphenoError
from tripheno.report.exports.atlas import write_atlas
from tripheno.report.exports.card import write_card
from tripheno.report.exports.chosen import Source, Wanted, open_source
from tripheno.report.exports.fhir import write_valuesets
from tripheno.report.exports.matrices import write_anndata, write_meds
from tripheno.report.exports.slides import write_slides
from tripheno.report.exports.tables import write_csv, write_parquet, write_xlsx
from tripheno.report.summary import listed

FORMATS: dict[str, Callable[[Source, Path], list[Path]]] = {
    "atlas": write_atlas,
    "valueset": write_valuesets,
    "xlsx": write_xlsx,
    "csv": write_csv,
    "anndata": write_anndata,
    "parquet": write_parquet,
    "meds": write_meds,
    "card": write_card,
    "slides": write_slides,
}
TAKEN_BY = {  # option → the formats that it makes a difference to
    "scored": ("anndata", "meds"),
    "concepts": ("atlas",),
    "only": ("atlas", "valueset", "meds", "slides"),
}


def export_run(folder: Path, form: str, out: Path, wanted: Wanted | None = None) -> list[Path]:
    """Write a run in a format into a new or empty folder; the files that were written.

    With patients in it, only the owner may open the folder and its files.
    """
    wanted = wanted or Wanted()
    for option, forms in TAKEN_BY.items():
        if getattr(wanted, option) and form not in forms:
            raise SettingsError(f"--{option} with --as {form}", fix=f"it is for {listed(forms)}")
    source = open_source(folder, wanted)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise OutputExists(f"{out} is not empty", fix="name another folder with --out")
    new = not out.exists()
    out.mkdir(parents=True, exist_ok=True)
    if wanted.scored is not None:
        out.chmod(0o700)
    try:
        written = FORMATS[form](source, out)
    except TriphenoError:
        if new:
            shutil.rmtree(out)  # nothing half-written stays
        raise
    if wanted.scored is not None:
        for path in written:
            path.chmod(0o600)
    return written
