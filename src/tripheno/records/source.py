"""What a record source is: it turns one hospital's tables into rows of a common shape.

A source answers with a plan: for every mode asked for, one or more extracts. An extract is a SELECT
whose rows have the columns

``patient, visit, starts, ends, code, label`` (text, text, time, time, text, text),
``site`` (the hospital, when one database holds several),
``visit_note`` (what became of the visit id: ``none``, ``dangling``, ``inferred``, or nothing),
``note`` (which rule decided, for the coverage report),
``part`` (1 for the first row made of a record, 2… for the others),
``fate`` (why the row is dropped, or nothing).

Everything after that (windows, patients, roll-up, files, the report) is the same for all sources.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol
from zoneinfo import available_timezones

import pyarrow as pa

from tripheno.errors import SettingsError
from tripheno.records.duck import Workbench
from tripheno.records.events import CountingRule
from tripheno.records.textfile import MISSING, check_encoding

NOT_RECORDED = "-not-recorded"  # ends the name of a folder of patients of no known hospital
ANCHORS = ("start", "interval")
DRUG_NAMES = ("ingredient", "folded", "raw")
WITHOUT_VISIT = ("drop", "date")
OPTIONS = {
    "infer_visit": "--infer-visit",
    "reference_ranges": "--reference-ranges",
    "mapping": "--settings",
    "schema": "--schema",
    "prefixes": "--prefix",
}


def is_remainder(site: str) -> bool:
    """Whether a site is no hospital but the patients of whom it is not recorded."""
    return site.endswith(NOT_RECORDED)


class Grouping(Protocol):
    """Rolls the codes of one mode up into groups."""

    @property
    def mode(self) -> str:
        """The mode whose codes it groups."""

    @property
    def name(self) -> str:
        """What it is called in the account."""

    @property
    def advice(self) -> str:
        """What is to be said of its names, if anything."""

    def groups(self, codes: Sequence[str]) -> pa.Table:
        """Columns ``code``, ``grouped``, ``label``; a code in two groups has two rows."""


class Titles(Protocol):
    """Knows the names of codes that the hospital's tables do not name."""

    def titles(self, codes: Sequence[str]) -> Mapping[str, str]:
        """The title of every code that has one."""

    def unlisted(self, codes: Sequence[str]) -> list[str]:
        """The codes that the list of their system does not have."""


@dataclass(frozen=True)
class IngestSettings:
    """How records become events. Faults are listed all at once."""

    rule: CountingRule = field(default_factory=CountingRule)
    anchor: str = "start"
    """Where a time window finds an order: at its start, or on every day it covers."""
    drug_names: str = "folded"
    """How drugs that are names are spelt: as ingredients (what the command does unless told
    otherwise), case-folded, or as written."""
    drug_table: Path | None = None
    """The hospital's own names of drugs: code, NDC, HICL or name → ingredient."""
    strip_strength: bool = False
    infer_visit: bool = False
    """Give records without a visit the visit that was under way at their time."""
    without_visit: str = "drop"
    """What becomes of records that have no visit still: dropped, or their day is their visit."""
    by: str | None = None
    timezone: str | None = None
    encoding: str | None = None
    """Of text files without byte-order mark; UTF-8 when nothing is said."""
    missing: tuple[str, ...] = MISSING
    """Words that mean nothing."""
    date_order: str | None = None
    """What 03/04/2020 means: dmy or mdy. Nothing said: it cannot be read."""
    strict: bool = False
    """Refuse what the data-quality gate finds."""
    synthetic: bool = False
    """The records are nobody's: a study with `test = true` may use them."""
    reference_ranges: Path | None = None
    mapping: Path | None = None
    schema: str | None = None
    prefixes: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """MEDS: which beginnings of codes belong to a mode, where the defaults do not fit."""
    memory: str = "700MB"
    groupings: tuple[Grouping, ...] = ()

    def __post_init__(self) -> None:
        faults = [
            f"{name} must be {' or '.join(allowed)}, not {value!r}"
            for name, value, allowed in (
                ("anchor", self.anchor, ANCHORS),
                ("drug names", self.drug_names, DRUG_NAMES),
                ("without-visit", self.without_visit, WITHOUT_VISIT),
            )
            if value not in allowed
        ]
        check_encoding(self.encoding)
        if self.anchor == "interval" and self.rule.calendar_width is None:
            faults.append(
                f"an order's interval is counted in calendar windows, not in '{self.rule.window}'"
            )
        if self.drug_names == "raw" and self.strip_strength:
            faults.append("raw drug names keep their strength")
        if self.date_order not in (None, "dmy", "mdy"):
            faults.append(f"date order must be dmy or mdy, not {self.date_order!r}")
        if self.timezone is not None and self.timezone not in available_timezones():
            faults.append(f"unknown time zone {self.timezone!r}")
        faults += [
            f"no mode '{grouping.mode}' to roll up"
            for grouping in self.groupings
            if grouping.mode not in self.rule.modes
        ]
        rolled = [grouping.mode for grouping in self.groupings]
        faults += [
            f"'{m}' is rolled up twice" for m in dict.fromkeys(rolled) if rolled.count(m) > 1
        ]
        if faults:
            raise SettingsError(
                "; ".join(faults), where="ingest", fix="see `tripheno ingest --help`"
            )


@dataclass(frozen=True)
class Extract:
    """One table's way into one mode: a SELECT of the columns that this module's docstring lists."""

    mode: str
    table: str
    sql: str
    parameters: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ReadingPlan:
    """What a source makes of the tables it found."""

    described: str
    extracts: tuple[Extract, ...]
    inputs: Mapping[str, str]
    facts: Mapping[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    names_drugs: bool = False
    """Whether its drugs are names, which can be folded to ingredients."""
    visits_are_unique: bool = True
    """Whether a visit's id belongs to one patient; tables of one's own may number them anew."""
    attributes: str | None = None
    """A SELECT of patient, birth_year, sex, died and perhaps age; it never leaves ``local/``."""
    key: str = "VARCHAR"
    """The type of the extracts' patient and visit: BIGINT where every table has whole numbers."""


class RecordSource(Protocol):
    """One kind of EHR tables."""

    @property
    def name(self) -> str:
        """What the command line calls it."""

    @property
    def modes(self) -> tuple[str, ...]:
        """The modes it can read; none when its settings decide."""

    @property
    def divisions(self) -> tuple[str, ...]:
        """What ``--by`` may name: the columns that say which hospital a record belongs to."""

    @property
    def options(self) -> tuple[str, ...]:
        """Which of the settings that only some sources understand it understands."""

    def plan(self, bench: Workbench, path: str, settings: IngestSettings) -> ReadingPlan:
        """Find the tables, check their columns, and say how each mode is read."""


def check_request(source: RecordSource, settings: IngestSettings) -> None:
    """Refuse modes, divisions and options that a source does not have, before anything is read."""
    faults = [
        f"{source.name} has no mode '{mode}' (it has {', '.join(source.modes)})"
        for mode in settings.rule.modes
        if source.modes and mode not in source.modes
    ]
    if settings.by is not None and settings.by not in source.divisions:
        offered = " or ".join(source.divisions) or "nothing"
        faults.append(f"{source.name} can be split by {offered}, not by '{settings.by}'")
    faults += [
        f"{source.name} does not understand {words}"
        for option, words in OPTIONS.items()
        if getattr(settings, option) and option not in source.options
    ]
    if faults:
        raise SettingsError("; ".join(faults), where="ingest")
