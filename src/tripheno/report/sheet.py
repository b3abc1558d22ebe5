"""The reviewer's sheet: filled in on paper, in Excel or as CSV, and read back in."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tripheno.errors import BadSheet, MissingExtra
from tripheno.files import as_it_was
from tripheno.report.annotations import FIELDS, Annotation, decisions, latest
from tripheno.report.run_folder import Report

SEEN = "statements"  # how many there were when the sheet was made: what it shows is as old
HEADING = ("run", "phenotype", "title", "grade", "codes", "reviewer", *FIELDS, SEEN)


def sheet_rows(report: Report, reviewer: str = "") -> list[list[Any]]:
    """A row for each phenotype and reviewer so far, and one without a reviewer to be filled in."""
    heard = report.annotations.said()
    state, seen = latest(heard), len(heard)
    rows: list[list[Any]] = []
    for p in report.phenotypes:
        codes = "\n".join(
            f"{mode}: " + ", ".join(f"{code.name} {100 * code.share:.0f} %" for code in ranked)
            for mode, ranked in p.shown.items()
        )
        about = [report.annotations.run, p.number, p.title, p.grade or "not examined", codes]
        for (number, who), said in state.items():
            if number == p.number:
                rows.append([*about, who, *(said.get(field, "") for field in FIELDS), seen])
        if (p.number, reviewer) not in state:
            rows.append([*about, reviewer, *("" for _ in FIELDS), seen])
    return [list(HEADING), *rows]


def read_sheet(path: Path) -> list[tuple[int, dict[str, str]]]:
    """The filled rows, numbered as the spreadsheet does, of CSV or a workbook's sheet “review”."""
    try:
        rows = _workbook_rows(path) if path.suffix.lower() == ".xlsx" else _csv_rows(path)
    except (OSError, ValueError, KeyError, csv.Error):
        raise BadSheet("The sheet cannot be read", where=path.name) from None
    heading, body = (rows[0], rows[1:]) if rows else ([], [])
    missing = [name for name in ("run", "phenotype", "reviewer") if name not in heading]
    if missing:
        raise BadSheet(f"The sheet has no column {', '.join(missing)}", where=path.name)
    return [
        (n, {name: as_it_was(text).strip() for name, text in zip(heading, row, strict=False)})
        for n, row in enumerate(body, start=2)
        if any(row)
    ]


def take_sheet(report: Report, path: Path, reviewer: str = "") -> dict[str, int]:
    """Add to the annotations what a sheet says anew; nothing is added unless all of it can be.

    An empty cell says nothing, and one that stands as the sheet was made neither: what was said
    since holds. A row without a reviewer is signed by ``reviewer``.
    """
    annotations = report.annotations
    known = {p.number for p in report.phenotypes}
    heard = annotations.said()
    decided = decisions(heard)
    found, faults = [], []
    for place, row in read_sheet(path):
        who, number = row["reviewer"] or reviewer, _whole(row["phenotype"])
        if not any(row.get(field) for field in FIELDS):
            continue
        if row["run"] != annotations.run:
            faults.append(f"row {place} is about run {row['run'][:20] or '(none)'}")
        elif number is None or not who:
            faults.append(f"row {place} has no {'phenotype' if number is None else 'reviewer'}")
        else:
            for field, value in _anew(row, number, who, heard):
                wrong = annotations.faults(number, who, field, value, known=known, decided=decided)
                faults += [f"row {place}: {fault}" for fault in wrong]
                found.append((number, who, field, value))
                decided |= {number: value} if field == "decision" else {}
    if faults:
        raise BadSheet(
            "; ".join(faults[:10]), where=path.name,
            fix="mend these rows; --reviewer signs those without one, and a sheet is of one run",
        )  # fmt: skip
    for one in found:
        annotations.add(*one, known)
    return {"added": len(found), "phenotypes": len({number for number, *_ in found})}


def _anew(
    row: Mapping[str, str], number: int, who: str, heard: Sequence[Annotation]
) -> list[tuple[str, str]]:
    """The cells of a row that say neither what holds now nor what held when the sheet was made."""
    then = heard[: _whole(row.get(SEEN, "")) or 0]
    known = [latest(said).get((number, who), {}) for said in (heard, then)]
    cells = {field: row.get(field, "") for field in FIELDS}
    cells |= {field: cells[field].casefold() for field in ("verdict", "decision")}
    return [
        (field, value)
        for field, value in cells.items()
        if value and all(value != said.get(field) for said in known)
    ]


def _whole(cell: str) -> int | None:
    """A whole number, which a spreadsheet may have made ``3.0`` of."""
    digits = cell.removesuffix(".0")
    return int(digits) if digits.isdecimal() else None


def _csv_rows(path: Path) -> list[list[str]]:
    content = path.read_bytes()
    wide = content.startswith((b"\xff\xfe", b"\xfe\xff"))  # Excel's “Unicode text”
    try:
        text = content.decode("utf-16" if wide else "utf-8-sig")
    except UnicodeDecodeError:
        text = content.decode("cp1252")  # as Excel saves CSV where nobody asked for UTF-8
    first = text.partition("\n")[0]
    return list(csv.reader(io.StringIO(text), delimiter=max(",;\t", key=first.count)))


def _workbook_rows(path: Path) -> list[list[str]]:
    try:
        from openpyxl import load_workbook  # noqa: PLC0415  an extra
        from openpyxl.utils.exceptions import InvalidFileException  # noqa: PLC0415
    except ImportError:
        raise MissingExtra("Excel needs openpyxl", fix="pip install 'tripheno[export]'") from None
    from zipfile import BadZipFile  # noqa: PLC0415

    try:
        book = load_workbook(path, read_only=True, data_only=True)
    except (InvalidFileException, BadZipFile):
        raise ValueError("no workbook") from None
    try:
        page = book["review"]
        return [
            ["" if v is None else str(v) for v in row] for row in page.iter_rows(values_only=True)
        ]
    finally:
        book.close()
