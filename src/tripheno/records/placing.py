"""From a plan to one table of coded rows, each in its window or dropped for a reason."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

from tripheno.records.duck import Workbench, sql_text
from tripheno.records.source import Extract, Grouping, IngestSettings, Plan

_PARAMETER = re.compile(r"\$(\w+)")


def place(
    bench: Workbench, plan: Plan, settings: IngestSettings, announce: Callable[[str], None]
) -> None:
    """Make ``coded``: every row of every extract, with window, group and fate.

    Rows wait in Parquet files of the workbench's folder: they need no memory, and each later
    question reads only the columns it asks about.
    """
    files: list[Path] = []
    for extract in plan.extracts:
        announce(f"reading {extract.table} → {extract.mode}")
        files.append(_place_extract(bench, extract, settings, len(files)))
    bench.view("placed", files)
    if settings.anchor == "interval":
        width = settings.rule.calendar_width
        files.append(bench.keep(sql_text("spread"), "spread", width=width))
        bench.view("placed", files)
    _roll_up(bench, settings.groupings, files)


def _place_extract(
    bench: Workbench, extract: Extract, settings: IngestSettings, number: int
) -> Path:
    rule = settings.rule
    sql = sql_text("place").replace("{extract}", extract.sql.strip().rstrip(";"))
    values: dict[str, Any] = {
        "drug_names": settings.drug_names,
        "strip_strength": settings.strip_strength,
        "infer_visit": settings.infer_visit,
        "by": settings.by,
        **extract.parameters,
        "source": extract.table,
        "mode": extract.mode,
        "width": rule.calendar_width,
        "divided": settings.by is not None,
        "needs_visit": rule.window == "visit",
        "by_date": settings.without_visit == "date",
        "needs_time": rule.calendar_width is not None or rule.sliding_width is not None,
        "interval": settings.anchor == "interval" and extract.mode == "medication",
    }
    wanted = set(_PARAMETER.findall(_without_comments(sql)))
    used = {name: value for name, value in values.items() if name in wanted}
    return bench.keep(sql, f"placed-{number}", **used)


def _without_comments(sql: str) -> str:
    return re.sub(r"--[^\n]*", "", sql)


def _roll_up(bench: Workbench, groupings: tuple[Grouping, ...], files: list[Path]) -> None:
    if not groupings:
        bench.view("coded", files)
        return
    tables = []
    for grouping in groupings:
        codes = bench.rows(
            "SELECT DISTINCT code FROM placed WHERE mode = $mode AND fate IS NULL ORDER BY code",
            mode=grouping.mode,
        )
        groups = grouping.groups([code for (code,) in codes])
        tables.append(groups.append_column("mode", pa.array([grouping.mode] * len(groups))))
    bench.take("groups_given", pa.concat_tables(tables))
    bench.run(
        "CREATE TABLE grouped AS SELECT mode, code, grouped, label, "
        "row_number() OVER (PARTITION BY mode, code ORDER BY grouped) AS ordinal FROM groups_given"
    )
    modes = pa.table({"mode": pa.array([grouping.mode for grouping in groupings])})
    bench.take("grouped_modes", modes)
    bench.view("coded", [bench.keep(sql_text("coded"), "coded")])
