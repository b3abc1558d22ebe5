"""What a data manager should look at before anybody fits anything to these events.

Each finding is one sentence of counts. The report shows them as warnings; --strict refuses them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tripheno.records.coverage import ModeCoverage, TableCoverage

_EXPECTED = ("not abnormal", "another kind", "nothing given", "not laboratory", "cancelled order")
_MOST_DROPPED = 0.9
_FEWEST_CODES = 5
_SOME = 0.01


def findings(
    tables: Sequence[TableCoverage], modes: Sequence[ModeCoverage], unlisted: Sequence[str] = ()
) -> tuple[str, ...]:
    """Every finding, those about tables first. ``unlisted`` are codes that no public list has."""
    found = [words for table in tables for words in _of_table(table)]
    found += [words for mode in modes for words in _of_mode(mode)]
    if unlisted:
        told = ", ".join(unlisted[:3]) + (" …" if len(unlisted) > 3 else "")
        found.append(
            f"{len(unlisted):,} codes have an ICD code's form but stand in no list: {told}"
        )
    return tuple(found)


def _of_table(table: TableCoverage) -> Iterator[str]:
    name = f"{table.table} → {table.mode}"
    asked = table.read - sum(table.dropped.get(reason, 0) for reason in _EXPECTED)
    if asked and table.used <= (1 - _MOST_DROPPED) * asked:
        yield f"{name}: {1 - table.used / asked:.0%} of the rows that matter were dropped"
    for reason, count in table.dropped.items():
        if "ICD" in reason or reason == "unknown flag":
            yield f"{name}: {count:,} rows dropped: {reason}"
    for rule, count in table.rules.items():
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
