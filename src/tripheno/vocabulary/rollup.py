"""Codes rolled up into groups that hospitals share: CCS, CCSR, or a table of the user's own.

``ccs`` and ``ccsr`` name AHRQ's groups of diagnoses; ``MODE=FILE.csv`` a file with the columns
``code``, ``group`` and perhaps ``label``. The phecode catalogue's own files (``ICD9`` or ``ICD10``,
``PheCode``, ``Phenotype``) and AHRQ's own CCSR file (``DXCCSR_v….csv``, which has the names of its
categories) are understood as they are.
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import pyarrow as pa

from tripheno.errors import BadGrouping, NoSuchFile, SettingsError
from tripheno.vocabulary.icd import ccs, ccs_label, ccsr, ccsr_label, split_code

_CODE_COLUMNS = {"code": "", "icd9": "ICD9CM", "icd10": "ICD10CM", "icd9_code": "ICD9CM",
                 "icd10cm": "ICD10CM", "concept_id": "", "icd-10-cm code": "ICD10CM"}  # fmt: skip
_NO_NAMES = (
    "CCSR categories are called after their field: AHRQ's names come with AHRQ's file, "
    "--rollup diagnosis=DXCCSR_v….csv"
)
_AHRQ = "default ccsr category ip"
_GROUP_COLUMNS = ("group", "phecode", "ccs", "ccsr", "category", _AHRQ)
_LABEL_COLUMNS = (
    "label", "phenotype", "name", "group_label", "default ccsr category description ip",
)  # fmt: skip


@dataclass(frozen=True)
class ICDGrouping:
    """AHRQ's groups of ICD diagnoses."""

    mode: str
    name: str
    assign: Callable[[Sequence[str]], dict[str, str]]
    label: Callable[[str], str | None]
    advice: str = ""

    def groups(self, codes: Sequence[str]) -> pa.Table:
        """Every code's group, spelt ``CCS:98``."""
        found = self.assign(codes)
        labels = {group: self.label(group) for group in set(found.values())}
        return _table(
            (code, f"{self.name.upper()}:{group}", labels[group]) for code, group in found.items()
        )


@dataclass(frozen=True)
class TableGrouping:
    """Groups from a table: (system, bare code) → groups with labels."""

    mode: str
    name: str
    members: dict[tuple[str, str], tuple[tuple[str, str | None], ...]]
    advice: str = ""

    def groups(self, codes: Sequence[str]) -> pa.Table:
        """Every code's groups; codes are compared without point, and by system where known."""
        return _table(
            (code, group, label) for code in codes for group, label in self._groups_of(code)
        )

    def _groups_of(self, code: str) -> tuple[tuple[str, str | None], ...]:
        system, bare = split_code(code)
        return self.members.get((system, bare)) or self.members.get(("", bare)) or ()


def parse_rollup(words: str, modes: Sequence[str]) -> ICDGrouping | TableGrouping:
    """A grouping from the command line: ``ccs``, ``ccsr`` or ``MODE=FILE``."""
    if words in ("ccs", "ccsr"):
        if "diagnosis" not in modes:
            raise SettingsError(f"--rollup {words} groups diagnoses", why="no mode 'diagnosis'")
        assign, label = (ccs, ccs_label) if words == "ccs" else (ccsr, ccsr_label)
        advice = "" if words == "ccs" else _NO_NAMES
        return ICDGrouping("diagnosis", words, assign, label, advice)
    mode, _, file = words.partition("=")
    if not file:
        raise SettingsError(
            f"--rollup {words} is not understood", fix="write ccs, ccsr, or MODE=FILE.csv"
        )
    return read_grouping(Path(file), mode)


def read_grouping(path: Path, mode: str) -> TableGrouping:
    """A grouping from a CSV file, compressed or not."""
    if not path.is_file():
        raise NoSuchFile(f"No grouping file {path}")
    members: dict[tuple[str, str], list[tuple[str, str | None]]] = {}
    opener = gzip.open if path.suffix.lower() == ".gz" else open
    try:
        with opener(path, "rt", encoding="utf-8-sig", newline="") as stream:
            for system, code, group, label in _lines(stream, path.name):
                entry = members.setdefault((system, split_code(code)[1]), [])
                if all(group != known for known, _ in entry):
                    entry.append((group, label))
    except (UnicodeDecodeError, EOFError, gzip.BadGzipFile):
        raise BadGrouping("cannot be read", where=path.name, why="damaged, or not UTF-8") from None
    name = path.name.removesuffix(".gz").removesuffix(".csv")
    return TableGrouping(mode, name, {key: tuple(groups) for key, groups in members.items()})


def _lines(stream: TextIO, name: str) -> Iterator[tuple[str, str, str, str | None]]:
    """System, code, group and label of every line that has both code and group."""
    reader = csv.DictReader(stream)
    columns = {column.strip(" '").lower(): column for column in reader.fieldnames or ()}
    code = next((c for c in _CODE_COLUMNS if c in columns), None)
    group = next((c for c in _GROUP_COLUMNS if c in columns and c != code), None)
    label = next((c for c in _LABEL_COLUMNS if c in columns), None)
    if code is None or group is None:
        raise BadGrouping(
            "no columns 'code' and 'group'",
            where=name,
            why="found instead: " + ", ".join(columns.values()),
            fix="name them code and group (and label)",
        )
    prefix = "CCSR:" if group == _AHRQ else ""
    for row in reader:
        member, belongs = _bare(row[columns[code]]), _bare(row[columns[group]])
        if member and belongs:
            system = split_code(member)[0] or _CODE_COLUMNS[code]
            named = _bare(row[columns[label]]) if label else ""
            yield system, member, prefix + belongs, named or None


def _bare(written: str | None) -> str:
    """A field without blanks, and without the apostrophes that AHRQ writes around it."""
    return (written or "").strip(" '")


def _table(rows: Iterator[tuple[str, str, str | None]]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [(), (), ()]
    names = ("code", "grouped", "label")
    return pa.table(
        {name: pa.array(values, pa.string()) for name, values in zip(names, columns, strict=True)}
    )
