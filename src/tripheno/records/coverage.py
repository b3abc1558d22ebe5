"""What was read, what was dropped and why, and the tensor it would give.

The report holds counts and codes, never a patient's number or a patient's value.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from tripheno.records.duck import Workbench, sql_text

TOP_CODES = 10
_REASONS = ("dropped", "visits", "rules", "times", "further")
_UNMAPPED = ("concept 0", "no code", "no HICL code", "no group")


@dataclass(frozen=True)
class TableCoverage:
    """One table's rows on their way into one mode."""

    table: str
    mode: str
    read: int
    used: int
    dropped: Mapping[str, int]
    visits: Mapping[str, int]
    """Rows without a visit id of their own, and what became of them."""
    rules: Mapping[str, int]
    """Which rule decided, e.g. whether a result is abnormal."""
    times: Mapping[str, int] = field(default_factory=dict)
    """Rows whose time is written in a way that cannot be read (missing times are not here)."""
    further: Mapping[str, int] = field(default_factory=dict)
    """Codes after the first of their row that were dropped, and why."""

    @property
    def share_without_visit(self) -> float:
        """Rows that carry no visit, or one that does not exist."""
        return sum(self.visits.values()) / self.read if self.read else 0.0

    @property
    def share_unmapped(self) -> float:
        """Rows dropped because their code says nothing."""
        unmapped = sum(self.dropped.get(reason, 0) for reason in _UNMAPPED)
        return unmapped / self.read if self.read else 0.0


@dataclass(frozen=True)
class ModeCoverage:
    """What one mode holds."""

    mode: str
    events: int
    repeated: int
    """Rows that say what another row says already: same patient, window, moment and code."""
    patients: int
    codes: int
    unnamed: int
    """Codes without a label of their own."""
    top: Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class TensorFacts:
    """The tensor that the events give: patients and codes that take part in at least one cell."""

    shape: tuple[int, ...]
    nonzeros: int

    @property
    def density(self) -> float:
        """Share of cells that are not zero."""
        cells = math.prod(self.shape)
        return self.nonzeros / cells if cells else 0.0


@dataclass(frozen=True)
class Coverage:
    """The whole account of one hospital's ingest."""

    site: str
    source: str
    described: str
    rule: Mapping[str, Any]
    tables: tuple[TableCoverage, ...]
    modes: tuple[ModeCoverage, ...]
    patients: int
    events: int
    tensor: TensorFacts | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    provenance: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """The report as plain values."""
        report = asdict(self)
        report["tables"] = [
            {
                **asdict(table),
                "share_without_visit": round(table.share_without_visit, 4),
                "share_unmapped": round(table.share_unmapped, 4),
            }
            for table in self.tables
        ]
        report["modes"] = {mode.mode: _without(asdict(mode), "mode") for mode in self.modes}
        report["tensor"] = None
        if self.tensor is not None:
            report["tensor"] = {
                "shape": list(self.tensor.shape),
                "nonzeros": self.tensor.nonzeros,
                "density": self.tensor.density,
            }
        return report

    def to_text(self) -> str:
        """The report for a terminal."""
        lines = [f"{self.site}: {self.described}, {_rule_in_words(self.rule)}", ""]
        for table in self.tables:
            lines += _table_lines(table)
        for mode in self.modes:
            lines += _mode_lines(mode)
        lines += [f"warning: {warning}" for warning in self.warnings]
        lines.append(f"{self.patients:,} patients, {self.events:,} events")
        if self.tensor is not None:
            shape = " × ".join(f"{size:,}" for size in self.tensor.shape)
            lines.append(
                f"tensor {shape}, {self.tensor.nonzeros:,} nonzeros, "
                f"density {self.tensor.density:.3%}"
            )
        return "\n".join(lines)


def _without(fields: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if key != name}


def _rule_in_words(rule: Mapping[str, Any]) -> str:
    cap = f", counts capped at {rule['cap']}" if rule.get("cap") else ""
    anchor = ", orders over their interval" if rule.get("anchor") == "interval" else ""
    return f"{' × '.join(rule['modes'])} by {rule['window']}{anchor}{cap}"


def _table_lines(table: TableCoverage) -> list[str]:
    lines = [f"{table.table} → {table.mode}: {table.read:,} rows read, {table.used:,} used"]
    lines += [f"    dropped {count:,}: {reason}" for reason, count in table.dropped.items()]
    if table.visits:
        states = ", ".join(f"{count:,} {state}" for state, count in table.visits.items())
        lines.append(f"    without a visit {table.share_without_visit:.1%}: {states}")
    if table.share_unmapped:
        lines.append(f"    unmapped codes {table.share_unmapped:.1%}")
    lines += [
        f"    decided by {rule}: {count / table.read:.1%}" for rule, count in table.rules.items()
    ]
    return lines


def _mode_lines(mode: ModeCoverage) -> list[str]:
    lines = [
        "",
        f"{mode.mode}: {mode.events:,} events, {mode.patients:,} patients, {mode.codes:,} codes"
        + (f", {mode.repeated:,} repetitions left out" if mode.repeated else ""),
    ]
    lines += [
        f"    {top['patients']:>7,}  {top['code']}  {top['label'] or ''}" for top in mode.top[:5]
    ]
    return [*lines, ""] if mode.top else lines


def count_tables(bench: Workbench, site: str | None) -> tuple[TableCoverage, ...]:
    """Per table: rows read, used, dropped by reason."""
    tables: dict[tuple[str, str], dict[str, Any]] = {}
    for source, mode, whole, fate, visit_note, note, time_note, rows in bench.rows(
        sql_text("coverage_rows"), site=site
    ):
        empty = {"read": 0, "used": 0, **{name: {} for name in _REASONS}}
        table = tables.setdefault((source, mode), empty)
        reasons = dict(zip(_REASONS, (fate, visit_note, note, time_note, None), strict=True))
        if whole:
            table["read"] += rows
            table["used"] += rows if fate is None else 0
        else:
            reasons = {"further": fate}
        for name, reason in reasons.items():
            if reason is not None:
                table[name][reason] = table[name].get(reason, 0) + rows
    return tuple(
        TableCoverage(table=source, mode=mode, **counts)
        for (source, mode), counts in tables.items()
    )


def count_modes(bench: Workbench, site: str | None) -> tuple[ModeCoverage, ...]:
    """Per mode: events, patients, codes, and the codes that most patients have."""
    top: dict[str, list[dict[str, Any]]] = {}
    for mode, code, label, patients in bench.rows(sql_text("coverage_top"), top=TOP_CODES):
        top.setdefault(mode, []).append({"code": code, "label": label, "patients": patients})
    return tuple(
        ModeCoverage(mode, events, rows - events, patients, codes, unnamed, top[mode])
        for mode, events, patients, codes, unnamed, rows in bench.rows(
            sql_text("coverage_modes"), site=site
        )
    )
