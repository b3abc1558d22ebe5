"""OMOP CDM 5.3 and 5.4, from a folder of files, a DuckDB file, or PostgreSQL."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tripheno.records.catalog import TableOrigin
from tripheno.records.databases import is_address
from tripheno.records.duck import Workbench, sql_text
from tripheno.records.origins import origin_of
from tripheno.records.ranges import load_ranges
from tripheno.records.source import Extract, IngestSettings, ReadingPlan
from tripheno.records.tables import TableNeed, Tables

VISITS = TableNeed.of("visit_occurrence", "visit_occurrence_id:key person_id:key")
CONCEPT = TableNeed.of(
    "concept",
    "concept_id:id concept_name:text vocabulary_id:text concept_class_id:text "
    "standard_concept:text",
)
ANCESTOR = TableNeed.of("concept_ancestor", "ancestor_concept_id:id descendant_concept_id:id")
CDM_SOURCE = TableNeed.of(
    "cdm_source", "cdm_source_name:text? cdm_version:text? vocabulary_version:text?"
)
PERSON = TableNeed.of(
    "person", "person_id:id year_of_birth:number? gender_concept_id:id? death_datetime:time?"
)
DEATH = TableNeed.of("death", "person_id:id")
_ATTRIBUTES = (
    "SELECT person_id AS patient, year_of_birth AS birth_year, CASE gender_concept_id "
    "WHEN '8532' THEN 'F' WHEN '8507' THEN 'M' END AS sex, "
    "{died} AS died FROM src.person"
)
NEEDS = {
    "medication": TableNeed.of(
        "drug_exposure",
        "person_id:key drug_concept_id:id drug_exposure_start_date:time? "
        "drug_exposure_start_datetime:time? drug_exposure_end_date:time? "
        "drug_exposure_end_datetime:time? visit_occurrence_id:key?",
    ),
    "diagnosis": TableNeed.of(
        "condition_occurrence",
        "person_id:key condition_concept_id:id condition_start_date:time? "
        "condition_start_datetime:time? visit_occurrence_id:key?",
    ),
    "procedure": TableNeed.of(
        "procedure_occurrence",
        "person_id:key procedure_concept_id:id procedure_date:time? procedure_datetime:time? "
        "visit_occurrence_id:key?",
    ),
    "lab": TableNeed.of(
        "measurement",
        "person_id:key measurement_concept_id:id measurement_date:time? measurement_datetime:time? "
        "value_as_number:offset? value_as_concept_id:id? range_low:offset? range_high:offset? "
        "visit_occurrence_id:key?",
    ),
}


class OMOP:
    """The OMOP common data model."""

    name = "omop"
    modes = tuple(NEEDS)
    divisions: tuple[str, ...] = ()
    options = ("reference_ranges", "schema")

    def plan(self, bench: Workbench, path: str, settings: IngestSettings) -> ReadingPlan:
        """Open the tables that the modes need; vocabularies and cdm_source may be missing."""
        beside = Path() if is_address(path) else Path(path)
        return self._plan(bench, origin_of(bench, path, settings.schema), beside, settings)

    def _plan(
        self, bench: Workbench, origin: TableOrigin, beside: Path, settings: IngestSettings
    ) -> ReadingPlan:
        tables = Tables(bench, origin)
        by_visit = settings.rule.window == "visit"
        views = [NEEDS[mode] for mode in settings.rule.modes]
        if settings.without_visit != "date":  # a day in a visit's place is text
            tables.join_by_number([*views, VISITS])
        for view in views:
            tables.open(view)
        if tables.open(VISITS, optional=not by_visit) and by_visit:
            tables.unique("visit_occurrence", "visit_occurrence_id")
        warnings = [] if tables.open(CONCEPT, optional=True) else ["no table concept: no labels"]
        bench.run(sql_text("omop_names"))
        attributes = _attributes(tables)
        tables.open(ANCESTOR, optional=True)
        tables.open(CDM_SOURCE, optional=True)
        warnings += _ingredients(bench)
        ranges = load_ranges(bench, settings.reference_ranges, beside)
        extracts = [
            Extract(
                mode,
                tables.shown(view.names[0]),
                _select(mode),
                {"visits_known": by_visit},
            )
            for mode, view in zip(settings.rule.modes, views, strict=True)
        ]
        facts = {**_cdm(bench), "reference_ranges": ranges.name if ranges else None}
        described = f"OMOP CDM {facts['cdm_version'] or '(no version in cdm_source)'}"
        inputs = origin.fingerprints(list(tables.opened.values()))
        return ReadingPlan(
            described,
            tuple(extracts),
            inputs,
            facts,
            (*warnings, *tables.notes),
            attributes=attributes,
            key=tables.key,
        )


def _select(mode: str) -> str:
    """Conditions and procedures differ by the names of their columns alone."""
    if mode == "diagnosis":
        return sql_text("omop_dated").format(code="condition", starts="condition_start")
    if mode == "procedure":
        return sql_text("omop_dated").format(code="procedure", starts="procedure")
    return sql_text(f"omop_{mode}")


def _attributes(tables: Tables) -> str | None:
    """Who the persons are. Deaths stand in a table of their own, since CDM 6 beside the person;
    where there is neither, nobody knows who died.
    """
    listed = tables.open(DEATH, optional=True)
    if not tables.open(PERSON, optional=True):
        return None
    noted = "death_datetime" in tables.columns("person")
    died = "death_datetime IS NOT NULL" if noted else "NULL::BOOLEAN"
    listing = "person_id IN (SELECT person_id FROM src.death)"
    return _ATTRIBUTES.format(died=listing if listed else died)


def _ingredients(bench: Workbench) -> list[str]:
    """The standard ingredients of every drug; without concept_ancestor a drug stays what it is."""
    bench.run(sql_text("omop_ingredients"))
    if bench.rows("SELECT count(*) FROM ingredients")[0][0]:
        return []
    return ["no ingredients in concept_ancestor: drugs keep their own concepts"]


def _cdm(bench: Workbench) -> dict[str, Any]:
    rows = bench.rows("SELECT cdm_source_name, cdm_version, vocabulary_version FROM src.cdm_source")
    names = ("cdm_source_name", "cdm_version", "vocabulary_version")
    return dict(zip(names, rows[0], strict=True)) if rows else dict.fromkeys(names)
