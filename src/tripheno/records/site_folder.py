"""A hospital's folder: events, an account of them, and the maps that never leave.

::

    SITE/events.parquet    the events, with their counting rule
    SITE/coverage.json     what was read, dropped and why
    SITE/local/            mode 0700: patients.parquet and, by visit, windows.parquet; where the
                           source has them, attributes.parquet (birth year, sex, death)

The files are made in the workbench's folder and moved into place together at the end: a run that
fails changes nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tripheno.errors import EmptyMode, OutputExists, PoorQuality
from tripheno.files import owners_folder, whole_file
from tripheno.provenance import provenance
from tripheno.records.alike import spellings
from tripheno.records.coverage import (
    Coverage,
    ModeCoverage,
    TableCoverage,
    TensorFacts,
    count_modes,
    count_tables,
)
from tripheno.records.duck import Workbench, sql_text
from tripheno.records.events import EVENT_SCHEMA, CountingRule, stream_events
from tripheno.records.quality import Ids, findings
from tripheno.records.source import IngestSettings, ReadingPlan, RecordSource, Titles

EVENTS, COVERAGE, LOCAL = "events.parquet", "coverage.json", "local"
PATIENTS, WINDOWS, ATTRIBUTES = "patients.parquet", "windows.parquet", "attributes.parquet"
Measure = Callable[[Path, CountingRule], TensorFacts]


def private_folder(folder: Path) -> Path:
    """The hospital's folder and, in it, the one that only its owner can open."""
    if folder.exists() and not _is_ours(folder):
        raise OutputExists(
            f"{folder} holds something else", fix="name another folder, or remove it yourself"
        )
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)  # the events stand here
    return owners_folder(folder / LOCAL)


def _is_ours(folder: Path) -> bool:
    """An empty folder, a hospital's folder, or one that holds hospitals' folders."""
    if not folder.is_dir():
        return False
    strange = {path.name for path in folder.iterdir()} - {EVENTS, COVERAGE, LOCAL, "site.toml"}
    return not strange or (folder / LOCAL).is_dir() or any(folder.glob(f"*/{EVENTS}"))


def tidy(folder: Path) -> None:
    """Remove the folders that a run made and left empty."""
    for empty in (folder / LOCAL, folder):
        if empty.is_dir() and not any(empty.iterdir()):
            empty.rmdir()


@dataclass(frozen=True)
class SiteWriter:
    """Writes the folder of one hospital out of the coded rows."""

    bench: Workbench
    source: RecordSource
    plan: ReadingPlan
    settings: IngestSettings
    measure: Measure | None
    titles: Titles | None

    def write(self, site: str | None, folder: Path) -> Coverage:
        """Make the events, refuse a mode without any, and put the files into place."""
        bench, rule = self.bench, self.settings.rule
        tables = count_tables(bench, site)
        bench.run(sql_text("site_patients"), site=site)
        bench.run(sql_text("site_codes"), site=site)
        if rule.window == "visit":
            bench.run(sql_text("site_windows"), site=site)
            bench.run(sql_text("site_events_by_visit"), site=site)
        else:
            bench.run(sql_text("site_events"), site=site, person=rule.window == "person")
        self._add_titles()
        modes = count_modes(bench, site)
        refuse_empty(rule, {mode.mode for mode in modes}, tables)
        made = bench.folder / "site"
        made.mkdir(exist_ok=True)
        events = stream_events(
            _spelt_out(bench), made / EVENTS, rule, synthetic=self.settings.synthetic
        )
        _write_map(bench, "SELECT patient, spelt AS key FROM patients", made / PATIENTS)
        if rule.window == "visit":
            visits = 'SELECT "window", patient, CAST(visit AS VARCHAR) AS visit FROM windows'
            _write_map(bench, visits, made / WINDOWS)
        found = self._quality(tables, modes)
        if self.plan.attributes is not None:
            query = sql_text("site_attributes").replace("{attributes}", self.plan.attributes)
            _write_map(bench, query, made / ATTRIBUTES)
        tensor = self.measure(made / EVENTS, rule) if self.measure is not None else None
        coverage = self._account(site or folder.name, tables, modes, events, tensor, found)
        text = json.dumps(coverage.to_json(), indent=2, ensure_ascii=False)
        (made / COVERAGE).write_text(text + "\n", encoding="utf-8")
        local = private_folder(folder)
        for name in (WINDOWS, ATTRIBUTES):
            (local / name).unlink(missing_ok=True)
        private = (PATIENTS, WINDOWS, ATTRIBUTES)
        for path in made.iterdir():
            path.replace((local if path.name in private else folder) / path.name)
        return coverage

    def _account(  # noqa: PLR0917 - each is a part of the account
        self,
        name: str,
        tables: tuple[TableCoverage, ...],
        modes: tuple[ModeCoverage, ...],
        events: int,
        tensor: TensorFacts | None,
        found: tuple[str, ...],
    ) -> Coverage:
        rule = self.settings.rule
        return Coverage(
            site=name,
            source=self.source.name,
            described=self.plan.described,
            rule={**asdict(rule), "anchor": self.settings.anchor},
            tables=tables,
            modes=tuple(sorted(modes, key=lambda mode: rule.modes.index(mode.mode))),
            patients=self.bench.rows("SELECT count(*) FROM patients")[0][0],
            events=events,
            tensor=tensor,
            facts=self.plan.facts,
            warnings=(*self.plan.warnings, *found),
            provenance=provenance(_settings_for_record(self.settings), self.plan.inputs),
        )

    def _quality(
        self, tables: tuple[TableCoverage, ...], modes: tuple[ModeCoverage, ...]
    ) -> tuple[str, ...]:
        """What the data-quality gate finds; with --strict that is the end."""
        listed = self.bench.rows("SELECT mode, code FROM codes ORDER BY code")
        codes = [code for _, code in listed]
        icd = [code for code in codes if code.startswith("ICD")]
        unlisted = self.titles.unlisted(icd) if self.titles is not None else []
        found = findings(tables, modes, self._ids(), codes, unlisted)
        for mode in self.settings.rule.modes:
            found += tuple(spellings(mode, [code for named, code in listed if named == mode]))
        if found and self.settings.strict:
            raise PoorQuality("; ".join((*self.plan.warnings, *found)), where=self.plan.described)
        return found

    def _ids(self) -> list[Ids]:
        """What the ids of patients and visits look like."""
        asked = {"patients": "SELECT spelt AS key, 1 AS people FROM patients"}
        if self.settings.rule.window == "visit":
            people = "count(*)" if self.plan.visits_are_unique else "1"
            asked["visits"] = (
                f"SELECT CAST(visit AS VARCHAR) AS key, {people} AS people FROM windows "  # noqa: S608
                "WHERE NOT starts_with(CAST(visit AS VARCHAR), 'day ') GROUP BY visit"
            )
        counted = (
            (name, self.bench.rows(sql_text("site_ids").replace("{keys}", keys))[0])
            for name, keys in asked.items()
        )
        return [Ids(name, total, *rest) for name, (total, *rest) in counted]

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


def _write_map(bench: Workbench, query: str, path: Path) -> None:
    """A map that only its owner can read. There is always a row: empty modes were refused."""
    batches = bench.stream(query)
    first = next(batches)
    with whole_file(path) as stream, pq.ParquetWriter(stream, first.schema) as writer:
        writer.write_batch(first)
        for batch in batches:
            writer.write_batch(batch)


def refuse_empty(rule: CountingRule, present: set[str], tables: tuple[TableCoverage, ...]) -> None:
    """A mode without events is an error, with the count of rows by the reason they were dropped."""
    for mode in rule.modes:
        if mode in present:
            continue
        reasons: dict[str, int] = {}
        for table in tables:
            if table.mode == mode:
                for reason, count in table.dropped.items():
                    reasons[reason] = reasons.get(reason, 0) + count
        listed = ", ".join(f"{count:,} rows: {reason}" for reason, count in reasons.items())
        commonest = max(reasons, key=lambda reason: reasons[reason]) if reasons else ""
        raise EmptyMode(
            f"The mode '{mode}' is empty",
            where=", ".join(table.table for table in tables if table.mode == mode),
            why=listed or "its tables have no rows",
            fix=_ADVICE.get(commonest, "try a wider window (person) or other modes"),
        )


_ADVICE = {
    "no visit": "use --window person or same-day, --infer-visit, or --without-visit date",
    "no time": "these records have no time: use --window visit or person",
    "time cannot be read": "write times as 2020-03-04 10:30, or say --date-order dmy or mdy",
    "no rule for abnormal": "give the site's reference ranges with --reference-ranges FILE",
    "no HICL code": "--drug-names raw uses the drug's name where the code is missing",
    "no group": "the grouping does not know these codes: try another --rollup",
}


def _settings_for_record(settings: IngestSettings) -> dict[str, Any]:
    """The settings as plain values, without paths: they are compared between machines."""
    plain = {name: getattr(settings, name) for name in settings.__dataclass_fields__}
    plain["rule"], plain["missing"] = asdict(settings.rule), list(settings.missing)
    plain["prefixes"] = {mode: list(found) for mode, found in settings.prefixes.items()}
    plain["groupings"] = [f"{g.mode}={g.name}" for g in settings.groupings]
    for name in ("reference_ranges", "mapping", "drug_table"):
        plain[name] = plain[name].name if plain[name] is not None else None
    return plain
