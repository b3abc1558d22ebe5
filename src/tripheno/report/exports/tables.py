"""Spreadsheets and Parquet: codes, evidence, and the reviewer's sheet that can be read back."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tripheno.errors import MissingExtra
from tripheno.files import csv_text, defused, write_text
from tripheno.report.annotations import VERDICTS
from tripheno.report.exports.chosen import Source
from tripheno.report.phenotypes import Phenotype
from tripheno.report.run_folder import Report, phenotype_rows, status_of
from tripheno.report.sheet import sheet_rows


def evidence_rows(phenotypes: Iterable[Phenotype]) -> list[list[Any]]:
    """One row for each phenotype: how sure, who has it, what people say."""
    heading = ["phenotype", "title", "grade", "other_starts", "resamples", "effective_patients",
               "patients", "patients_share", "share_of_fit", "origin", "status", "named_by",
               "verdicts"]  # fmt: skip
    rows = [
        [
            p.number, p.title, p.grade or "", p.stability, p.stability_resamples,
            p.effective_patients, p.prevalence.total if p.prevalence else None,
            p.prevalence.total_share if p.prevalence else None, round(p.share, 6),
            p.claimed.kind if p.claimed else "", status_of(p),
            p.review.named_by,
            "; ".join(f"{who}: {verdict}" for who, verdict in p.review.verdicts.items()),
        ]
        for p in phenotypes
    ]  # fmt: skip
    return [heading, *rows]


def run_tables(source: Source) -> dict[str, list[list[Any]]]:
    """The tables of a run by name, each with its heading."""
    phenotypes = source.report.phenotypes
    return {
        "review": sheet_rows(source.report),
        "evidence": evidence_rows(phenotypes),
        "codes": phenotype_rows(phenotypes),
    }


def write_csv(source: Source, out: Path) -> list[Path]:
    """``review.csv``, ``evidence.csv`` and ``codes.csv``."""
    written = []
    for name, rows in run_tables(source).items():
        written.append(out / f"{name}.csv")
        write_text(written[-1], "\ufeff" + csv_text(rows))  # by which Excel knows UTF-8
    return written


def write_parquet(source: Source, out: Path) -> list[Path]:
    """The same tables as Parquet, and the iterations."""
    tables = {name: arrow_of(rows) for name, rows in run_tables(source).items()}
    tables["history"] = history_table(source.report)
    for name, table in tables.items():
        pq.write_table(table, out / f"{name}.parquet")
    return [out / f"{name}.parquet" for name in tables]


def history_table(report: Report) -> pa.Table:
    """A row for each iteration."""
    lines = report.history
    return arrow_of([list(lines[0]), *(list(line.values()) for line in lines)])


def arrow_of(rows: list[list[Any]]) -> pa.Table:
    """Rows with a heading as an Arrow table; a column with texts in it is all text."""
    heading, *body = rows
    columns = {}
    for n, name in enumerate(heading):
        column = [row[n] for row in body]
        texts = any(isinstance(value, str) for value in column)
        values = pa.array([None if v is None else str(v) if texts else v for v in column])
        columns[name] = values.cast(pa.float64()) if values.null_count == len(values) else values
    return pa.table(columns)


def write_xlsx(source: Source, out: Path) -> list[Path]:
    """``phenotypes.xlsx``: the reviewer's sheet first, with lists to choose verdicts from."""
    try:
        from openpyxl import Workbook  # noqa: PLC0415  an extra
        from openpyxl.styles import Alignment, Font  # noqa: PLC0415
        from openpyxl.utils import get_column_letter  # noqa: PLC0415
        from openpyxl.worksheet.datavalidation import DataValidation  # noqa: PLC0415
    except ImportError:
        raise MissingExtra("Excel needs openpyxl", fix="pip install 'tripheno[export]'") from None
    book = Workbook()
    book.remove(book.active)
    for name, rows in run_tables(source).items():
        page = book.create_sheet(name)
        for row in rows:
            page.append([_cell(value) for value in row])
        page.freeze_panes = "A2"
        for n, title in enumerate(rows[0], start=1):
            page.cell(1, n).font = Font(bold=True)
            wide = 60 if title in ("codes", "comment") else 28 if title in ("title", "name") else 14
            page.column_dimensions[get_column_letter(n)].width = wide
        if name == "review":
            listed = DataValidation(
                "list", formula1=f'"{",".join(VERDICTS[1:])}"', allow_blank=True
            )
            page.add_data_validation(listed)
            letter = get_column_letter(rows[0].index("verdict") + 1)
            listed.add(f"{letter}2:{letter}{len(rows)}")
            for cells in page.iter_rows(min_row=2):
                for cell in cells:
                    cell.alignment = Alignment(wrap_text=True, vertical="top")
    path = out / "phenotypes.xlsx"
    book.save(path)
    return [path]


def _cell(value: Any) -> Any:
    """A cell that Excel takes: no formula, no control characters, not longer than it allows."""
    if not isinstance(value, str):
        return value
    return defused("".join(c for c in value if c >= " " or c in "\t\n"))[:32_000]
