"""OHDSI: concept sets and cohort definitions that ATLAS imports, and PhenotypeLibrary's table."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from tripheno.errors import NoConceptIds, UnreadableTable
from tripheno.files import csv_text, write_text
from tripheno.report.exports.chosen import Chosen, Source

CRITERIA = {
    "medication": "DrugExposure",
    "diagnosis": "ConditionOccurrence",
    "condition": "ConditionOccurrence",
    "procedure": "ProcedureOccurrence",
    "lab": "Measurement",
    "measurement": "Measurement",
    "observation": "Observation",
}
DOMAINS = {"DrugExposure": "Drug", "ConditionOccurrence": "Condition",
           "ProcedureOccurrence": "Procedure"}  # fmt: skip
LOGIC = "at least one of its codes of every kind, at any time"
_ALWAYS = {"Start": {"Coeff": -1}, "End": {"Coeff": 1}, "UseEventEnd": False}
_CONCEPT_COLUMNS = ("concept_id", "concept_code", "vocabulary_id")


def write_atlas(source: Source, out: Path) -> list[Path]:
    """A cohort definition for each phenotype, its concept sets, and ``Cohorts.csv``."""
    ids = concept_ids(source)
    written, defined = [], []
    for one in source.chosen():
        sets = _concept_sets(one, ids)
        if not sets:
            continue
        defined.append(one)
        name = f"{one.phenotype.number:03d}"
        for kind, value in {
            "cohorts": cohort_definition(sets),
            "conceptsets": {s["name"]: s["expression"] for s in sets},
        }.items():
            (out / kind).mkdir(exist_ok=True)
            path = out / kind / f"{name}.json"
            write_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")
            written.append(path)
    if not written:
        raise _no_ids(source)
    write_text(out / "Cohorts.csv", csv_text(_library_rows(source, defined)))
    return [*written, out / "Cohorts.csv"]


def cohort_definition(sets: list[dict[str, Any]]) -> dict[str, Any]:
    """A CIRCE expression: people with a code of the leading mode, and of every other mode too.

    It is a starting point that a reader edits in ATLAS, not the rule by which a run counts members.
    """
    first, *others = sorted(sets, key=lambda s: s["criteria"] != "ConditionOccurrence")
    limit = {"Type": "First"}
    return {
        "ConceptSets": [{k: s[k] for k in ("id", "name", "expression")} for s in sets],
        "PrimaryCriteria": {
            "CriteriaList": [{first["criteria"]: {"CodesetId": first["id"]}}],
            "ObservationWindow": {"PriorDays": 0, "PostDays": 0},
            "PrimaryCriteriaLimit": limit,
        },
        "QualifiedLimit": limit,
        "ExpressionLimit": limit,
        "InclusionRules": [
            {
                "name": f"has a {other['mode']} of the phenotype",
                "expression": {
                    "Type": "ALL",
                    "CriteriaList": [
                        {
                            "Criteria": {other["criteria"]: {"CodesetId": other["id"]}},
                            "StartWindow": _ALWAYS,
                            "Occurrence": {"Type": 2, "Count": 1, "IsDistinct": False},
                        }
                    ],
                    "DemographicCriteriaList": [],
                    "Groups": [],
                },
            }
            for other in others
        ],
        "CensoringCriteria": [],
        "CollapseSettings": {"CollapseType": "ERA", "EraPad": 0},
        "CensorWindow": {},
        "cdmVersionRange": ">=5.0.0",
    }


def concept_ids(source: Source) -> dict[tuple[str, str], int]:
    """(mode, code) → OMOP concept id, of the codes that phenotypes show.

    Codes of an OMOP source are concept ids themselves. Codes of another source (``ICD9CM:038.9``)
    are looked up in the concept table the user names.
    """
    shown = {
        (mode, code.code)
        for one in source.chosen()
        for mode, codes in one.codes.items()
        for code in codes
        if code.code
    }
    if source.wanted.concepts is not None:
        table = _lookup(source.wanted.concepts, {code for _, code in shown})
        return {key: table[key[1]] for key in shown if key[1] in table}
    for mode in source.run["modes"][1:]:
        columns = pq.read_table(source.folder / "factors" / f"{mode}.parquet")
        codes = columns["code"].to_pylist() if "code" in columns.column_names else [None]
        if not all(code and code.isdecimal() for code in codes):
            raise _no_ids(source)
    return {(mode, code): int(code) for mode, code in shown}


def _no_ids(source: Source) -> NoConceptIds:
    return NoConceptIds(
        "The codes of this run are not OMOP concept ids",
        where=str(source.folder),
        fix="name a concept table that has them: --concepts CONCEPT.csv",
    )


def _lookup(path: Path, codes: set[str]) -> dict[str, int]:
    """``VOCABULARY:code`` → concept id, of Athena's CONCEPT.csv (tabs) or a Parquet file."""
    try:
        if path.suffix == ".parquet":
            table = pq.read_table(path, columns=list(_CONCEPT_COLUMNS))
        else:
            as_text = {name: pa.string() for name in _CONCEPT_COLUMNS}
            table = pyarrow.csv.read_csv(
                path,
                parse_options=pyarrow.csv.ParseOptions(delimiter="\t", quote_char=False),
                convert_options=pyarrow.csv.ConvertOptions(
                    include_columns=list(_CONCEPT_COLUMNS), column_types=as_text
                ),
            )
        text = {name: table[name].cast(pa.string()) for name in _CONCEPT_COLUMNS}
    except (OSError, KeyError, pa.ArrowException):
        raise UnreadableTable(
            "The concept table cannot be read", where=path.name,
            why=f"it needs the columns {', '.join(_CONCEPT_COLUMNS)}",
        ) from None  # fmt: skip
    names = pc.binary_join_element_wise(text["vocabulary_id"], text["concept_code"], ":")
    chosen = pc.is_in(names, pa.array(sorted(codes)))
    found = zip(names.filter(chosen).to_pylist(), text["concept_id"].filter(chosen).to_pylist(),
                strict=True)  # fmt: skip
    return {name: int(number) for name, number in found}


def _concept_sets(one: Chosen, ids: Mapping[tuple[str, str], int]) -> list[dict[str, Any]]:
    sets: list[dict[str, Any]] = []
    for mode, codes in one.codes.items():
        known = [(ids[mode, c.code], c) for c in codes if c.code and (mode, c.code) in ids]
        if mode in CRITERIA and known:
            items = [
                {
                    "concept": {
                        "CONCEPT_ID": number,
                        "CONCEPT_NAME": code.name,
                        "CONCEPT_CODE": (code.code or "").rpartition(":")[2],
                        "DOMAIN_ID": DOMAINS.get(CRITERIA[mode], CRITERIA[mode]),
                    },
                    "isExcluded": False,
                    "includeDescendants": True,
                    "includeMapped": False,
                }
                for number, code in known
            ]
            name = f"{one.phenotype.title}: {mode}"
            sets.append({"id": len(sets), "name": name, "mode": mode, "criteria": CRITERIA[mode],
                         "expression": {"items": items}})  # fmt: skip
    return sets


def _library_rows(source: Source, defined: Sequence[Chosen]) -> list[list[Any]]:
    """PhenotypeLibrary's description of each cohort."""
    heading = ["cohortId", "cohortName", "cohortNameLong", "logicDescription", "hashTag", "status",
               "createdDate", "contributors"]  # fmt: skip
    made = source.run["provenance"]["created"][:10]
    run = f"#run-{source.report.annotations.run}"
    rows = [
        [
            one.phenotype.number, one.phenotype.title, one.phenotype.words, LOGIC,
            f"#tripheno, {run}, #{one.phenotype.grade or 'ungraded'}",
            "Pending peer review", made, one.phenotype.review.named_by,
        ]
        for one in defined
    ]  # fmt: skip
    return [heading, *rows]
