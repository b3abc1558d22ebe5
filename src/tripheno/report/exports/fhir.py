"""FHIR: one ValueSet for each phenotype."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

from tripheno.files import write_text
from tripheno.report.exports.chosen import Chosen, Source

SYSTEMS = {
    "ICD9CM": "http://hl7.org/fhir/sid/icd-9-cm",
    "ICD10CM": "http://hl7.org/fhir/sid/icd-10-cm",
    "ICD10": "http://hl7.org/fhir/sid/icd-10",
    "ICD9PROC": "http://hl7.org/fhir/sid/icd-9-cm",
    "ATC": "http://www.whocc.no/atc",
    "LOINC": "http://loinc.org",
    "NDC": "http://hl7.org/fhir/sid/ndc",
    "RXNORM": "http://www.nlm.nih.gov/research/umls/rxnorm",
    "SNOMED": "http://snomed.info/sct",
}


def write_valuesets(source: Source, out: Path) -> list[Path]:
    """``phenotype-<number>.json``, draft ValueSets with codes by their system."""
    written = []
    for one in source.chosen():
        path = out / f"phenotype-{one.phenotype.number:03d}.json"
        value = value_set(one, source)
        write_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")
        written.append(path)
    return written


def value_set(one: Chosen, source: Source) -> dict[str, Any]:
    """A ValueSet resource; codes without a known system stand under one of the run's own."""
    phenotype, run = one.phenotype, source.report.annotations.run
    systems: dict[str, dict[str, str]] = {}
    for mode, codes in one.codes.items():
        for code in codes:
            if code.code:
                system, bare = _system(mode, code.code)
                systems.setdefault(system, {})[bare] = " ".join(code.name.split())
    sure = phenotype.grade or "not examined"
    return {
        "resourceType": "ValueSet",
        "url": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_OID, f'tripheno/{run}/{phenotype.number}')}",
        "name": f"TriphenoPhenotype{phenotype.number}",
        "title": phenotype.title[:500],
        "status": "draft",
        "experimental": True,
        "date": source.run["provenance"]["created"][:10],
        "description": f"Codes that occur together, phenotype {phenotype.number} of run {run}, "
        f"found by tripheno {source.run['tripheno']}; how sure: {sure}.",
        "compose": {
            "include": [
                {"system": system, "concept": [
                    {"code": code, "display": name or code} for code, name in sorted(found.items())
                ]}
                for system, found in sorted(systems.items())
            ]
        },
    }  # fmt: skip


def _system(mode: str, code: str) -> tuple[str, str]:
    """A code's system and the code in it."""
    prefix, colon, bare = code.partition(":")
    known = SYSTEMS.get(prefix.upper())
    if colon and known and bare.strip():
        return known, " ".join(bare.split())
    return f"urn:x-tripheno:{mode}", " ".join(code.split())
