"""The site's own reference ranges: which results are abnormal when the records do not say."""

from __future__ import annotations

from pathlib import Path

from tripheno.errors import BadReferenceRanges, NoSuchFile
from tripheno.records.delimited import csv_relation
from tripheno.records.duck import Workbench, identifier, literals, sql_text
from tripheno.records.textfile import header_of

FILE_NAME = "reference_ranges.csv"
_CODES = ("code", "concept_id", "measurement_concept_id", "itemid", "labname", "lab")
_LABELS = ("label", "name")


def load_ranges(bench: Workbench, given: Path | None, path: Path) -> Path | None:
    """Fill the table ``ranges`` (test, low, high) from the file given, or the one by the data."""
    beside = path / FILE_NAME
    file = given or (beside if path.is_dir() and beside.is_file() else None)
    if file is None:
        bench.run("CREATE TABLE ranges (test VARCHAR, low DOUBLE, high DOUBLE)")
        return None
    if not file.is_file():
        raise NoSuchFile(f"No file of reference ranges {file}")
    spelt = {name.lower(): name for name in header_of(file, declared=bench.encoding).columns}
    code = next((spelt[name] for name in _CODES if name in spelt), None)
    label = next((spelt[name] for name in _LABELS if name in spelt), None)
    absent = [name for name in ("low", "high") if name not in spelt]
    if (code is None and label is None) or absent:
        raise BadReferenceRanges(
            "Reference ranges need a test, low and high",
            where=file.name,
            why="found instead: " + ", ".join(spelt.values()),
            fix="name the columns code, low, high (and label)",
        )
    query = sql_text("ranges").format(
        code=identifier(code) if code else "NULL",
        label=identifier(label) if label else "NULL",
        low=identifier(spelt["low"]),
        high=identifier(spelt["high"]),
        relation=csv_relation(bench, file),
    )
    relation, words = csv_relation(bench, file), literals(bench.missing)
    bounds = [f"tidy({identifier(spelt[name])})" for name in ("low", "high")]
    unread = " OR ".join(
        f"({b} NOT IN ({words}) AND try_cast({b} AS DOUBLE) IS NULL)" for b in bounds
    )
    ((odd,),) = bench.rows(f"SELECT count(*) FROM {relation} WHERE {unread}")  # noqa: S608
    if odd:
        raise BadReferenceRanges(f"{odd} rows have bounds that are no numbers", where=file.name)
    bench.run(query)
    _refuse_contradictions(bench, file)
    return file


def _refuse_contradictions(bench: Workbench, file: Path) -> None:
    several = bench.rows(
        "SELECT count(*) FROM (SELECT test FROM ranges GROUP BY test HAVING count(*) > 1)"
    )[0][0]
    wrong = bench.rows("SELECT count(*) FROM ranges WHERE low > high")[0][0]
    faults = [f"{several} tests have two ranges"] if several else []
    faults += [f"{wrong} ranges have low above high"] if wrong else []
    if faults:
        raise BadReferenceRanges("; ".join(faults), where=file.name)
