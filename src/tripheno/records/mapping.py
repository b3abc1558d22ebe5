"""The column mapping of a hospital's own tables, as `site.toml` spells it.

::

    [[source.tables]]
    file = "diabetic_data.csv.gz"          # in the folder named on the command line
    mode = "diagnosis"
    patient = "patient_nbr"
    visit = "encounter_id"                 # optional, like time, end, label, hospital
    code = ["diag_1", "diag_2", "diag_3"]  # one column or several
    system = "ICD9CM"                      # optional: spells ICD codes as other sources do
    separator = ";"                        # optional: several codes in one field
    missing = ["?"]                        # optional: what else means "nothing"
    only = { column = "kind", values = ["DX"] }   # optional: rows of this kind only

    [[source.tables]]
    file = "diabetic_data.csv.gz"
    mode = "medication"
    patient = "patient_nbr"
    visit = "encounter_id"
    flags = ["metformin", "insulin"]       # instead of code: columns that say whether it was given
    absent = ["No"]
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tripheno.errors import BadSiteSettings, NoSuchFile

_TEXT = (
    "file",
    "mode",
    "patient",
    "visit",
    "time",
    "end",
    "label",
    "hospital",
    "system",
    "separator",
)
_SYSTEMS = {
    name.lower(): name
    for name in ("ICD9CM", "ICD10CM", "ICD9Proc", "ICD10PCS", "RxNorm", "SNOMED", "LOINC", "CPT4",
                 "ATC", "NDC")
}  # fmt: skip
_LISTS = ("code", "flags", "missing", "absent")


@dataclass(frozen=True)
class TableMapping:
    """How one of the hospital's own tables is read."""

    file: str
    mode: str
    patient: str
    visit: str | None = None
    time: str | None = None
    end: str | None = None
    label: str | None = None
    hospital: str | None = None
    system: str | None = None
    separator: str | None = None
    code: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    missing: tuple[str, ...] = ("?",)
    absent: tuple[str, ...] = ("no", "n", "0", "false", "f", "none", "never", "absent")
    only_column: str | None = None
    only_values: tuple[str, ...] = ()

    @property
    def icd(self) -> str | None:
        """The version of ICD that the codes are said to be in."""
        return {"ICD9CM": "9", "ICD10CM": "10"}.get(self.system or "")


def read_mapping(path: Path) -> tuple[TableMapping, ...]:
    """The tables of a `site.toml`, or every fault in it at once."""
    if not path.is_file():
        raise NoSuchFile(
            f"No column mapping {path}", fix="name it with --settings, or put it beside the data"
        )
    text = path.read_text(encoding="utf-8")
    try:
        given = tomllib.loads(text)
    except tomllib.TOMLDecodeError as fault:
        raise BadSiteSettings("not TOML", where=path.name, why=str(fault)) from None
    tables = given.get("source", {}).get("tables", [])
    if not isinstance(tables, list) or not tables:
        raise BadSiteSettings(
            "no [[source.tables]]", where=path.name, fix="describe one table at least"
        )
    faults: list[str] = []
    lines = [
        n for n, line in enumerate(text.splitlines(), 1) if line.strip() == "[[source.tables]]"
    ]
    mappings = []
    for number, table in enumerate(tables):
        where = f"line {lines[number]}" if number < len(lines) else f"table {number + 1}"
        found = [f"{where}: {fault}" for fault in _faults(table)]
        faults += found
        if not found:
            mappings.append(_mapping(table))
    if faults:
        raise BadSiteSettings("; ".join(faults), where=path.name)
    return tuple(mappings)


def _meant(key: str, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(key, known, 1)
    return f" (did you mean '{close[0]}'?)" if close else f" (known: {', '.join(known)})"


def _faults(table: dict[str, Any]) -> list[str]:
    """What is wrong with one table's mapping."""
    known = (*_TEXT, *_LISTS, "only")
    faults = [f"unknown key '{key}'{_meant(key, known)}" for key in table if key not in known]
    faults += [f"no '{key}'" for key in ("file", "mode", "patient") if key not in table]
    faults += [f"'{key}' must be text" for key in _TEXT if not isinstance(table.get(key, ""), str)]
    for key in _LISTS:
        values = table.get(key, [])
        if isinstance(values, str) and key == "code":
            continue
        if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
            faults.append(f"'{key}' must be a list of texts")
    if ("code" in table) == ("flags" in table):
        faults.append("give either 'code' or 'flags'")
    if "mode" in table and table["mode"] == "patient":
        faults.append("a mode cannot be called 'patient'")
    only = table.get("only", {"column": "", "values": []})
    if not isinstance(only, dict) or set(only) != {"column", "values"}:
        faults.append("'only' has a column and values")
    return faults


def _mapping(table: dict[str, Any]) -> TableMapping:
    fields: dict[str, Any] = {key: table[key] for key in _TEXT if key in table}
    for key in _LISTS:
        if key in table:
            value = table[key]
            fields[key] = (value,) if isinstance(value, str) else tuple(value)
    if "system" in table:  # other hospitals' codes begin with the same letters
        plain = re.sub(r"[\W_]", "", table["system"]).lower()
        fields["system"] = _SYSTEMS.get(plain, table["system"])
    if "only" in table:
        fields["only_column"] = table["only"]["column"]
        fields["only_values"] = tuple(str(value) for value in table["only"]["values"])
    return TableMapping(**fields)
