"""From a plan to one table of coded rows, each in its window or dropped for a reason."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

from tripheno.records.drugs import DrugAxis, read_drug_table
from tripheno.records.duck import Workbench, sql_text
from tripheno.records.source import Extract, Grouping, IngestSettings, ReadingPlan

_PARAMETER = re.compile(r"\$(\w+)")


def place(
    bench: Workbench, plan: ReadingPlan, settings: IngestSettings, announce: Callable[[str], None]
) -> dict[str, Any]:
    """Make ``coded``: every row of every extract, with window, group and fate.

    Rows wait in Parquet files of the workbench's folder: they need no memory, and each later
    question reads only the columns it asks about.
    """
    files: list[Path] = []
    for extract in plan.extracts:
        announce(f"reading {extract.table} → {extract.mode}")
        files.append(_place_extract(bench, extract, settings, len(files), plan.key))
    bench.view("placed", files)
    if settings.anchor == "interval":
        width = settings.rule.calendar_width
        files.append(bench.keep(sql_text("spread"), "spread", width=width))
        bench.view("placed", files)
    tables = [_grouped(bench, grouping) for grouping in settings.groupings]
    facts: dict[str, Any] = {}
    to_name = set(settings.rule.modes) - {grouping.mode for grouping in settings.groupings}
    if plan.names_drugs and settings.drug_names == "ingredient" and "medication" in to_name:
        groups, counts = _ingredients(bench, settings)
        tables.append(groups)
        facts = {"drug_axis": dict(sorted(counts.items()))}
    _roll_up(bench, tables, files)
    return facts


def _place_extract(
    bench: Workbench, extract: Extract, settings: IngestSettings, number: int, key: str
) -> Path:
    rule = settings.rule
    sql = sql_text("place").replace("{extract}", extract.sql.strip().rstrip(";"))
    sql = sql.replace("{key}", key)
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


def _grouped(bench: Workbench, grouping: Grouping) -> pa.Table:
    """One grouping of the codes that its mode has."""
    codes = bench.rows(
        "SELECT DISTINCT code FROM placed WHERE mode = $mode AND fate IS NULL ORDER BY code",
        mode=grouping.mode,
    )
    groups = grouping.groups([code for (code,) in codes])
    return groups.append_column("mode", pa.array([grouping.mode] * len(groups), pa.string()))


def _ingredients(bench: Workbench, settings: IngestSettings) -> tuple[pa.Table, Counter[str]]:
    """The drugs of the tables as ingredients."""
    axis = read_drug_table(settings.drug_table) if settings.drug_table else DrugAxis()
    uses = bench.rows(
        "SELECT code, label, count(*) FROM placed WHERE mode = 'medication' AND fate IS NULL "
        "GROUP BY ALL ORDER BY ALL"
    )
    found, counts = axis.groups(uses)
    counts["ingredients"] = len({ingredient for _, ingredient, _ in found})
    columns = list(zip(*found, strict=True)) or [(), (), ()]
    named = zip(("code", "grouped", "label"), columns, strict=True)
    table = pa.table({name: pa.array(values, pa.string()) for name, values in named})
    return table.append_column("mode", pa.array(["medication"] * len(found), pa.string())), counts


def _roll_up(bench: Workbench, tables: list[pa.Table], files: list[Path]) -> None:
    if not tables:
        bench.view("coded", files)
        return
    bench.take("groups_given", pa.concat_tables(tables))
    bench.run(
        "CREATE TABLE grouped AS SELECT mode, code, grouped, label, "
        "row_number() OVER (PARTITION BY mode, code ORDER BY grouped) AS ordinal FROM groups_given"
    )
    bench.run("CREATE TABLE grouped_modes AS SELECT DISTINCT mode FROM groups_given")
    bench.view("coded", [bench.keep(sql_text("coded"), "coded")])
