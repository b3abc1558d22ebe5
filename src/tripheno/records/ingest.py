"""EHR tables in, a hospital's folder out; or one per hospital, when a database holds several."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from tripheno.errors import EmptyMode, EmptyTensor
from tripheno.records.coverage import Coverage, TableCoverage, count_tables
from tripheno.records.duck import WordAsKey, Workbench
from tripheno.records.placing import place
from tripheno.records.site_folder import Measure, SiteWriter, private_folder, tidy
from tripheno.records.source import IngestSettings, RecordSource, Titles, check_request


@dataclass(frozen=True)
class Ingested:
    """The folders that were written, and the hospitals that had to be left out."""

    sites: tuple[Coverage, ...]
    skipped: dict[str, str]
    by: str | None = None
    unassigned: tuple[TableCoverage, ...] = ()
    """Rows that belong to no hospital, when there are several."""

    def to_json(self) -> dict[str, Any]:
        """One hospital's report, or all of them under ``sites``."""
        if self.by is None:
            return self.sites[0].to_json()
        reports = [site.to_json() for site in self.sites]
        lost = [asdict(table) for table in self.unassigned]
        return {"by": self.by, "sites": reports, "skipped": self.skipped, "unassigned": lost}

    def to_text(self) -> str:
        """The reports for a terminal, one after the other."""
        parts = [site.to_text() for site in self.sites]
        parts += [f"left out {name}: {why}" for name, why in self.skipped.items()]
        parts += [
            f"{table.read:,} rows of {table.table} belong to no {self.by}: "
            + ", ".join(f"{count:,} {reason}" for reason, count in table.dropped.items())
            for table in self.unassigned
        ]
        return "\n\n".join(parts)


def ingest(
    source: RecordSource,
    path: str,
    out: Path,
    settings: IngestSettings,
    *,
    measure: Measure | None = None,
    titles: Titles | None = None,
    announce: Callable[[str], None] = lambda _: None,
) -> Ingested:
    """Read a hospital's tables and write its folder; with ``by``, one folder per hospital.

    ``measure`` says what tensor a file of events gives (the tensor's layer comes after this one);
    ``announce`` hears which table is being read.
    """
    check_request(source, settings)
    local = private_folder(out)
    for left in local.glob("work-*"):  # of a run that was killed: patients' rows do not lie around
        shutil.rmtree(left, ignore_errors=True)

    def read(*, whole_keys: bool) -> Ingested:
        with _workbench(local, settings, whole_keys=whole_keys) as bench:
            plan = source.plan(bench, path, settings)
            placed = place(bench, plan, settings, announce)
            advice = tuple(g.advice for g in settings.groupings if g.advice)
            warnings = plan.warnings + _of_drugs(placed.get("drug_axis", {})) + advice
            plan = replace(plan, facts={**plan.facts, **placed}, warnings=warnings)
            writer = SiteWriter(bench, source, plan, settings, measure, titles)
            if settings.by is None:
                return Ingested((writer.write(None, out),), {})
            return _write_each(bench, writer, out, settings.by)

    try:
        return read(whole_keys=True)
    except WordAsKey:
        return read(whole_keys=False)
    finally:
        tidy(out)


def _of_drugs(axis: Mapping[str, int]) -> tuple[str, ...]:
    """What is to be said of the drugs' names."""
    said = (
        ("without a name", "drugs have a code but no name: give --drug-table"),
        ("misread", "drugs' names were read in another encoding"),
    )
    return tuple(f"{axis[how]:,} {words}" for how, words in said if axis.get(how))


def _workbench(folder: Path, settings: IngestSettings, *, whole_keys: bool) -> Workbench:
    return Workbench(
        folder,
        memory=settings.memory,
        timezone=settings.timezone,
        encoding=settings.encoding,
        missing=settings.missing,
        date_order=settings.date_order,
        whole_keys=whole_keys,
    )


def _write_each(bench: Workbench, writer: SiteWriter, out: Path, by: str) -> Ingested:
    """A folder per hospital; one that lacks a whole mode is left out, and said so."""
    sites, skipped = [], {}
    taken: set[str] = set()
    names = bench.rows("SELECT DISTINCT site FROM coded WHERE site IS NOT NULL ORDER BY site")
    plainly = {name: name.strip().lower().lstrip("0") for (name,) in names}
    alike = Counter(plainly.values())
    twins = sorted(name for name, plain in plainly.items() if alike[plain] > 1)
    if twins:
        words = (
            f"{by}: {', '.join(twins[:4])} differ by capitals, blanks or zeros only: one hospital?"
        )
        writer = replace(writer, plan=replace(writer.plan, warnings=(*writer.plan.warnings, words)))
    for (name,) in names:
        plain = "".join(c if c.isalnum() or c in "-_" else "_" for c in name)
        folder = plain if plain.lower() not in taken else f"{plain}_{len(taken)}"
        taken.add(folder.lower())
        try:
            sites.append(writer.write(name, out / folder))
        except (EmptyMode, EmptyTensor) as fault:
            skipped[name] = fault.what
    if not sites:
        raise EmptyMode(
            f"No {by} has every mode",
            why="; ".join(f"{name}: {why}" for name, why in list(skipped.items())[:5]),
        )
    return Ingested(tuple(sites), skipped, by, count_tables(bench, None))
