"""What a data manager should look at before anybody fits anything to these events.

Each finding is one sentence of counts. The report shows them as warnings; --strict refuses them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tripheno.records.coverage import ModeCoverage, TableCoverage
from tripheno.records.textfile import MISREAD, NOBODY

_EXPECTED = ("not abnormal", "another kind", "nothing given", "not laboratory", "cancelled order")
_MOST_DROPPED = 0.9
_FEWEST_CODES = 5
_SOME = 0.01
_ENOUGH_CODES = 100
_NO_CODES = (*NOBODY, "missing", "not specified", "0", "true", "false")
_MONTH = "(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)"
_NO_CODE = re.compile(
    r"[\W_]+|\d+([.,]\d+)?e\+\d+|\d{1,3}([,' ]\d{3})+|&\w+;|-\d+|\d{4,}\.0+"
    rf"|\d\d?-{_MONTH}(-\d+)?|{_MONTH}-\d+|\d{{4}}-\d\d-\d\d.*|\d\d?([/.])\d\d?\4\d{{4}}",
    re.IGNORECASE,
)
"""Signs only, numbers that a spreadsheet rounded or parted into thousands, a page's blanks, numbers
below zero or with a fraction of zero, days."""


@dataclass(frozen=True)
class Ids:
    """The ids of patients or visits, in counts."""

    name: str
    total: int
    odd: int
    """No whole numbers above 0."""
    twins: int
    """Equal to another but for leading zeros and capitals."""
    shared: int = 0
    """Visits of several patients."""


def findings(
    tables: Sequence[TableCoverage],
    modes: Sequence[ModeCoverage],
    ids: Sequence[Ids] = (),
    codes: Sequence[str] = (),
    unlisted: Sequence[str] = (),
) -> tuple[str, ...]:
    """Every finding, those about tables first. ``unlisted`` are codes that no public list has."""
    found = [words for table in tables for words in _of_table(table)]
    found += [words for mode in modes for words in _of_mode(mode)]
    found += [words for kind in ids for words in _of_ids(kind)]
    numeric = [code for code in codes if code.startswith("ICD9CM:") and code[7].isdigit()]
    if len(numeric) >= _ENOUGH_CODES and not any(code[7] == "0" for code in numeric):
        found.append("no ICD-9 code begins with 0: did the export lose leading zeros?")
    exact = [code for code in numeric if re.fullmatch(r".*\.\d\d", code)]
    if len(exact) >= _ENOUGH_CODES // 2 and not any(code.endswith("0") for code in exact):
        found.append("no ICD-9 code ends with 0: did the export lose zeros after the point?")
    misread = [code for code in codes if MISREAD.search(code)]
    if misread:
        found.append(f"{len(misread):,} codes were read in another encoding: {_some(misread)}")
    bare = {code: code.rpartition("//")[2] for code in codes}  # MEDICATION//START//UNK
    odd = [c for c in codes if bare[c].lower() in _NO_CODES or _NO_CODE.fullmatch(c)]
    if odd:
        found.append(f"{len(odd):,} codes look like no codes: {_some(odd)}")
    if unlisted:
        found.append(
            f"{len(unlisted):,} codes have an ICD code's form but stand in no list: "
            + _some(unlisted)
        )
    return tuple(found)


def _some(codes: Sequence[str]) -> str:
    return ", ".join(codes[:3]) + (" …" if len(codes) > 3 else "")


def _of_table(table: TableCoverage) -> Iterator[str]:
    name = f"{table.table} → {table.mode}"
    asked = table.read - sum(table.dropped.get(reason, 0) for reason in _EXPECTED)
    if asked and table.used <= (1 - _MOST_DROPPED) * asked:
        yield f"{name}: {1 - table.used / asked:.0%} of the rows that matter were dropped"
    for reason, count in table.dropped.items():
        if "ICD" in reason or reason in ("unknown flag", "no patient"):
            yield f"{name}: {count:,} rows dropped: {reason}"
    for rule, count in table.rules.items():
        if rule == "words, no code" and table.mode != "medication":
            yield f"{name}: {count:,} rows have words and no code"
        if rule == "a code without its system" and table.mode != "medication":
            yield f"{name}: {count:,} rows have {rule}"
        if rule == "unknown status":
            yield f"{name}: {count:,} rows have an {rule}, and count"
        if rule.startswith("unknown flag ") or rule == "ICD-9 procedure code":
            yield f"{name}: {count:,} rows have an {rule}"
    for reason, count in table.times.items():
        yield f"{name}: {count:,} rows: the time {reason}".replace("time the", "time's") + (
            "; 03/04/2020 is read once --date-order says dmy or mdy"
            if reason == "cannot be read"
            else ""
        )
    for reason, count in table.further.items():
        yield f"{name}: {count:,} further codes of rows dropped: {reason}"


def _of_mode(mode: ModeCoverage) -> Iterator[str]:
    if mode.codes <= _FEWEST_CODES:
        yield f"{mode.mode}: only {mode.codes} different codes"
    if mode.unnamed > _SOME * mode.codes:
        yield f"{mode.mode}: {mode.unnamed:,} of {mode.codes:,} codes have no name"


def _of_ids(ids: Ids) -> Iterator[str]:
    if 0 < ids.odd <= ids.total / 2:
        odd = f"{ids.odd:,} of {ids.total:,} ids"
        yield f"{ids.name}: {odd} are no whole numbers above 0 as the others are"
    if ids.twins:
        yield f"{ids.name}: {ids.twins:,} ids equal another but for leading zeros or capitals"
    if ids.shared:
        yield f"{ids.name}: {ids.shared:,} ids belong to several patients"
