"""EHR tables in, a hospital's folder out: events, an account of them, and the patients' map.

::

    SITE/events.parquet    the events, with their counting rule
    SITE/coverage.json     what was read, dropped and why
    SITE/local/            mode 0700: patients.parquet, windows.parquet; never leaves
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tripheno.errors import DataError, EmptyMode, EmptyTensor, OutputExists
from tripheno.provenance import provenance
from tripheno.records.coverage import (
    Coverage,
    TableCoverage,
    TensorFacts,
    count_modes,
    count_tables,
)
from tripheno.records.duck import Workbench, sql_text
from tripheno.records.events import EVENT_SCHEMA, CountingRule, stream_events
from tripheno.records.placing import place
from tripheno.records.source import IngestSettings, Plan, RecordSource, Titles, check_request

EVENTS, COVERAGE, LOCAL = "events.parquet", "coverage.json", "local"
Measure = Callable[[Path, CountingRule], TensorFacts]


@dataclass(frozen=True)
class Ingested:
    """The folders that were written, and the hospitals that had to be left out."""

    sites: tuple[Coverage, ...]
    skipped: dict[str, str]
    by: str | None = None

    def to_json(self) -> dict[str, Any]:
        """One hospital's report, or all of them under ``sites``."""
        if self.by is None:
            return self.sites[0].to_json()
        reports = [site.to_json() for site in self.sites]
        return {"by": self.by, "sites": reports, "skipped": self.skipped}

    def to_text(self) -> str:
        """The reports for a terminal, one after the other."""
        parts = [site.to_text() for site in self.sites]
        parts += [f"left out {name}: {why}" for name, why in self.skipped.items()]
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
    local = _private_folder(out)
    with Workbench(local, memory=settings.memory, timezone=settings.timezone) as bench:
        plan = source.plan(bench, path, settings)
        place(bench, plan, settings, announce)
        writer = _SiteWriter(bench, source, plan, settings, measure, titles)
        if settings.by is None:
            return Ingested((writer.write(None, out),), {})
        sites, skipped = _write_each(bench, writer, out)
    local.rmdir()
    if not sites:
        raise EmptyMode(
            f"No {settings.by} has every mode",
            why="; ".join(f"{name}: {why}" for name, why in list(skipped.items())[:5]),
        )
    return Ingested(tuple(sites), skipped, settings.by)


def _write_each(
    bench: Workbench, writer: _SiteWriter, out: Path
) -> tuple[list[Coverage], dict[str, str]]:
    """A folder per hospital; one that lacks a whole mode is left out, and said so."""
    sites, skipped = [], {}
    names = bench.rows("SELECT DISTINCT site FROM coded WHERE site IS NOT NULL ORDER BY site")
    for (name,) in names:
        folder = out / "".join(c if c.isalnum() or c in "-_" else "_" for c in name)
        try:
            sites.append(writer.write(name, folder))
        except (EmptyMode, EmptyTensor) as fault:
            skipped[name] = fault.what
            _remove_site(folder)
    return sites, skipped


@dataclass(frozen=True)
class _SiteWriter:
    """Writes the folder of one hospital out of the coded rows."""

    bench: Workbench
    source: RecordSource
    plan: Plan
    settings: IngestSettings
    measure: Measure | None
    titles: Titles | None

    def write(self, site: str | None, folder: Path) -> Coverage:
        """Make the events, refuse a mode without any, write the files."""
        bench, rule = self.bench, self.settings.rule
        tables = count_tables(bench, site)
        bench.run(sql_text("site_patients"), site=site)
        bench.run(sql_text("site_windows"), site=site, rule=rule.window)
        bench.run(sql_text("site_codes"), site=site)
        bench.run(sql_text("site_events"), site=site, rule=rule.window)
        self._add_titles()
        modes = count_modes(bench, site)
        _refuse_empty(rule, {mode.mode for mode in modes}, tables)
        local = _private_folder(folder)
        with _whole_or_nothing(folder):
            events = stream_events(_spelt_out(bench), folder / EVENTS, rule)
            _write_map(bench, "SELECT patient, key FROM patients", local / "patients.parquet")
            _write_map(bench, "SELECT * FROM windows", local / "windows.parquet")
            coverage = Coverage(
                site=site or folder.name,
                source=self.source.name,
                described=self.plan.described,
                rule={**asdict(rule), "anchor": self.settings.anchor},
                tables=tables,
                modes=tuple(sorted(modes, key=lambda mode: rule.modes.index(mode.mode))),
                patients=bench.rows("SELECT count(*) FROM patients")[0][0],
                events=events,
                facts=self.plan.facts,
                warnings=self.plan.warnings,
                provenance=provenance(_settings_for_record(self.settings), self.plan.inputs),
            )
            if self.measure is not None:
                coverage = replace(coverage, tensor=self.measure(folder / EVENTS, rule))
            text = json.dumps(coverage.to_json(), indent=2, ensure_ascii=False)
            (folder / COVERAGE).write_text(text + "\n", encoding="utf-8")
        return coverage

    def _add_titles(self) -> None:
        """Names for codes that the tables do not name."""
        if self.titles is None:
            return
        nameless = self.bench.rows("SELECT code FROM codes WHERE label IS NULL")
        known = self.titles.titles([code for (code,) in nameless])
        if known:
            found = {"code": list(known), "title": list(known.values())}
            self.bench.take("titles", pa.table(found))
            self.bench.run(
                "UPDATE codes SET label = titles.title FROM titles "
                "WHERE titles.code = codes.code AND codes.label IS NULL"
            )


def _spelt_out(bench: Workbench) -> Iterator[pa.RecordBatch]:
    """The events batch by batch, code numbers replaced by mode, code and label."""
    names = bench.rows("SELECT mode, code, label FROM codes ORDER BY number")
    lists = [pa.array(column, pa.string()) for column in zip(*names, strict=True)]
    spelt = [column.dictionary_encode() for column in lists]
    for batch in bench.stream(sql_text("site_stream")):
        mode, code, label = (column.take(batch["code"]) for column in spelt)
        columns = [batch["patient"], batch["window"], batch["time"], mode, code, label]
        yield pa.record_batch(columns, schema=EVENT_SCHEMA)


def _refuse_empty(rule: CountingRule, present: set[str], tables: tuple[TableCoverage, ...]) -> None:
    """A mode without events is an error, with the count of rows by the reason they were dropped."""
    for mode in rule.modes:
        if mode in present:
            continue
        reasons: dict[str, int] = {}
        for table in tables:
            if table.mode == mode:
                for reason, count in table.dropped.items():
                    reasons[reason] = reasons.get(reason, 0) + count
        told = ", ".join(f"{count:,} rows: {reason}" for reason, count in reasons.items())
        raise EmptyMode(
            f"The mode '{mode}' is empty",
            where=", ".join(table.table for table in tables if table.mode == mode),
            why=told or "its tables have no rows",
            fix=_ADVICE.get(max(reasons, key=lambda r: reasons[r]) if reasons else "", "")
            or "try a wider window (person) or other modes",
        )


_ADVICE = {
    "no visit": "use --window person or same-day, --infer-visit, or --without-visit date",
    "no time": "these records have no time: use --window visit or person",
    "no rule for abnormal": "give the site's reference ranges with --reference-ranges FILE",
    "no HICL code": "--drug-names raw uses the drug's name where the code is missing",
    "no group": "the grouping does not know these codes: try another --rollup",
}


def _private_folder(folder: Path) -> Path:
    """The hospital's folder and, in it, the one that only its owner can open."""
    foreign = folder.exists() and (
        not folder.is_dir()
        or (
            {p.name for p in folder.iterdir()} - {EVENTS, COVERAGE, LOCAL, "site.toml"}
            and not (folder / LOCAL).is_dir()
            and not list(folder.glob(f"*/{EVENTS}"))
        )
    )
    if foreign:
        raise OutputExists(
            f"{folder} holds something else", fix="name another folder, or remove it yourself"
        )
    local = folder / LOCAL
    local.mkdir(parents=True, exist_ok=True)
    local.chmod(0o700)
    return local


def _write_map(bench: Workbench, query: str, path: Path) -> None:
    batches = bench.stream(query)
    first = next(batches, None)
    path.unlink(missing_ok=True)
    if first is None:
        return
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    with os.fdopen(descriptor, "wb") as stream, pq.ParquetWriter(stream, first.schema) as writer:
        writer.write_batch(first)
        for batch in batches:
            writer.write_batch(batch)


@contextmanager
def _whole_or_nothing(folder: Path) -> Iterator[None]:
    """A folder whose files belong together: when a step fails, none of them stays."""
    try:
        yield
    except (DataError, OSError):
        _remove_site(folder)
        raise


def _remove_site(folder: Path) -> None:
    for name in (
        EVENTS,
        EVENTS + ".part",
        COVERAGE,
        "local/patients.parquet",
        "local/windows.parquet",
    ):
        (folder / name).unlink(missing_ok=True)
    for empty in (folder / LOCAL, folder):
        if empty.is_dir() and not any(empty.iterdir()):
            empty.rmdir()


def _settings_for_record(settings: IngestSettings) -> dict[str, Any]:
    """The settings as plain values, without paths: they are compared between machines."""
    plain = {name: getattr(settings, name) for name in settings.__dataclass_fields__}
    plain["rule"] = asdict(settings.rule)
    plain["groupings"] = [f"{g.mode}={g.name}" for g in settings.groupings]
    for name in ("reference_ranges", "mapping"):
        plain[name] = plain[name].name if plain[name] is not None else None
    return plain
