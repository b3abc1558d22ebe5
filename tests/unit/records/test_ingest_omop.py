"""OMOP: ingredients, abnormal results, visits that are missing or dangle, and what the CDM says."""

import duckdb
import pyarrow.parquet as pq
import pytest

from tripheno.errors import BadReferenceRanges, EmptyMode, MissingTable
from tripheno.records.events import read_events
from tripheno.records.omop import OMOP
from tripheno.testing.small_tables import cells, run_ingest, write_tables

LABS = ("medication", "lab")
CONCEPTS = """
    concept_id,concept_name,vocabulary_id,concept_class_id,standard_concept
    1112807,aspirin,RxNorm,Ingredient,S
    1322184,clopidogrel,RxNorm,Ingredient,S
    701,local aspirin,Local,Ingredient,
    19059056,aspirin 81 MG Oral Tablet,RxNorm,Clinical Drug,S
    40000001,aspirin / clopidogrel,RxNorm Extension,Clinical Drug,S
    40000002,a vaccine,CVX,CVX,S
    320128,Essential hypertension,SNOMED,Disorder,S
    3004410,Hemoglobin A1c,LOINC,Lab Test,S
    3013682,Urea nitrogen,LOINC,Lab Test,S
    """
ANCESTORS = """
    ancestor_concept_id,descendant_concept_id,min_levels_of_separation
    1112807,19059056,2
    1112807,40000001,1
    1322184,40000001,1
    701,19059056,1
    19059056,19059056,0
    """


@pytest.fixture
def cdm(tmp_path):
    return write_tables(
        tmp_path / "cdm",
        PERSON="person_id\n1\n2",
        VISIT_OCCURRENCE="visit_occurrence_id,person_id\n11,1\n21,2",
        CONCEPT=CONCEPTS,
        CONCEPT_ANCESTOR=ANCESTORS,
        CDM_SOURCE="cdm_source_name,cdm_version,vocabulary_version\nTown,5.4,v5.0 22-JUN-22",
        DRUG_EXPOSURE="""
            person_id,drug_concept_id,drug_exposure_start_date,visit_occurrence_id
            1,19059056,2020-01-01,11
            1,40000001,2020-01-01,11
            1,0,2020-01-01,11
            2,40000002,2020-03-01,
            2,40000002,2020-03-02,99
            """,
        CONDITION_OCCURRENCE="""
            person_id,condition_concept_id,condition_start_date,visit_occurrence_id
            1,320128,2020-01-01,11
            2,320128,2020-03-01,
            2,320128,2020-03-02,21
            """,
        MEASUREMENT="""
            person_id,measurement_concept_id,measurement_date,value_as_number,value_as_concept_id,range_low,range_high,visit_occurrence_id
            1,3004410,2020-01-01,5,4328749,4,6,11
            1,3004410,2020-01-01,9,4069590,4,6,11
            1,3004410,2020-01-01,9,,4,6,11
            1,3004410,2020-01-01,5,0,4,6,11
            1,3013682,2020-01-01,99,,,,11
            1,3013682,2020-01-01,12,,,,11
            1,3013682,2020-01-01,,,,,11
            1,3013682,2020-01-01,,9191,,,11
            1,0,2020-01-01,9,,4,6,11
            """,
        PROCEDURE_OCCURRENCE="""
            person_id,procedure_concept_id,procedure_date,visit_occurrence_id
            1,4301351,2020-01-01,11
            """,
    )


def table_of(result, mode):
    return next(table for table in result.sites[0].tables if table.mode == mode)


def test_drugs_become_their_standard_ingredients_and_a_combination_both(cdm):
    site, result = run_ingest(OMOP(), cdm, window="person")
    assert cells(site) == {
        ("1", "1112807", "320128"): 1,
        ("1", "1322184", "320128"): 1,
        ("2", "40000002", "320128"): 1,
    }
    drugs = table_of(result, "medication")
    assert (drugs.read, drugs.used, drugs.dropped) == (5, 4, {"concept 0": 1})
    assert drugs.rules == {"ingredient": 2, "own concept": 3}
    rows = read_events(site / "events.parquet").to_pylist()
    assert {row["label"] for row in rows if row["code"] == "1112807"} == {"aspirin"}


def test_without_ancestors_a_drug_stays_what_it_is_and_says_so(cdm):
    (cdm / "CONCEPT_ANCESTOR.csv").write_text("ancestor_concept_id,descendant_concept_id\n")
    site, result = run_ingest(OMOP(), cdm, window="person")
    assert ("1", "19059056", "320128") in cells(site)
    assert "no ingredients" in result.sites[0].warnings[0]


def test_the_cdm_names_itself_in_the_account(cdm):
    _, result = run_ingest(OMOP(), cdm, window="person")
    assert result.sites[0].described == "OMOP CDM 5.4"
    assert result.sites[0].facts["cdm_source_name"] == "Town"


def test_missing_and_dangling_visits_are_told_apart_and_dropped(cdm):
    site, result = run_ingest(OMOP(), cdm)
    assert table_of(result, "medication").visits == {"dangling": 1, "none": 1}
    assert table_of(result, "medication").dropped == {"concept 0": 1, "no visit": 2}
    assert {patient for patient, *_ in cells(site)} == {"1"}


def test_missing_and_dangling_visits_fall_back_to_their_day_when_declared(cdm):
    site, result = run_ingest(OMOP(), cdm, without_visit="date")
    assert table_of(result, "medication").visits == {
        "dangling, day used": 1, "none, day used": 1,
    }  # fmt: skip
    # on 1 March drug and condition have no visit and meet; on 2 March the condition has one
    assert cells(site)[("2", "40000002", "320128")] == 1


def test_a_visit_of_another_person_is_none_of_ones_own(cdm):
    (cdm / "VISIT_OCCURRENCE.csv").write_text("visit_occurrence_id,person_id\n11,2\n21,2\n")
    _, result = run_ingest(OMOP(), cdm, without_visit="date")
    assert table_of(result, "diagnosis").visits == {"dangling, day used": 1, "none, day used": 1}


def test_abnormal_is_told_by_the_first_rule_that_applies(cdm):
    site, result = run_ingest(OMOP(), cdm, LABS)
    labs = table_of(result, "lab")
    assert labs.rules == {"range": 3, "value concept": 3}
    assert labs.dropped == {"concept 0": 1, "no rule for abnormal": 3, "not abnormal": 2}
    assert labs.used == 3
    assert {lab for _, _, lab in cells(site)} == {"3004410", "3013682"}


def test_the_sites_own_ranges_are_the_last_resort(cdm):
    (cdm / "reference_ranges.csv").write_text("code,label,low,high\n3013682,BUN,7,20\n")
    _, result = run_ingest(OMOP(), cdm, LABS)
    labs = table_of(result, "lab")
    assert labs.rules == {"range": 3, "site range": 2, "value concept": 3}
    assert labs.dropped == {"concept 0": 1, "no rule for abnormal": 1, "not abnormal": 3}
    assert result.sites[0].facts["reference_ranges"] == "reference_ranges.csv"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("code,lower,upper\n1,2,3\n", "need a test, low and high"),
        ("code,low,high\n1,2,3\n1,2,4\n", "1 tests have two ranges"),
        ("code,low,high\n1,9,3\n", "1 ranges have low above high"),
    ],
)
def test_ranges_that_cannot_be_used_are_refused(cdm, text, why):
    (cdm / "reference_ranges.csv").write_text(text)
    with pytest.raises(BadReferenceRanges, match=why):
        run_ingest(OMOP(), cdm, LABS)


def test_procedures_are_a_mode_of_their_own_and_three_modes_go_together(cdm):
    site, _ = run_ingest(OMOP(), cdm, ("medication", "diagnosis", "procedure"))
    assert ("1", "1112807", "320128", "4301351") in cells(site)


def test_visits_are_needed_only_for_windows_by_visit(cdm):
    (cdm / "VISIT_OCCURRENCE.csv").unlink()
    run_ingest(OMOP(), cdm, window="person")
    with pytest.raises(MissingTable, match="visit_occurrence"):
        run_ingest(OMOP(), cdm)


def test_when_no_record_has_a_visit_the_way_out_is_named(cdm):
    text = (cdm / "DRUG_EXPOSURE.csv").read_text().replace(",11\n", ",\n")
    (cdm / "DRUG_EXPOSURE.csv").write_text(text)
    with pytest.raises(EmptyMode, match=r"4 rows: no visit.*--without-visit date"):
        run_ingest(OMOP(), cdm)


def as_parquet(folder, where, *, text=()):
    """The same tables as Parquet, ids as whole numbers but in the tables named."""
    where.mkdir()
    with duckdb.connect() as db:
        for table in folder.iterdir():
            name = table.stem.lower()
            db.execute(
                f"COPY (SELECT * FROM read_csv('{table}', all_varchar = {name in text})) "
                f"TO '{where / name}.parquet' (FORMAT parquet)"
            )
    return where


@pytest.mark.parametrize("text", [(), ("visit_occurrence",), ("drug_exposure", "person")])
@pytest.mark.parametrize("window", ["visit", "person", "same-day"])
def test_ids_that_are_whole_numbers_give_the_same_folder_as_texts(tmp_path, cdm, window, text):
    typed = as_parquet(cdm, tmp_path / "typed", text=text)
    sites = [run_ingest(OMOP(), tables, window=window)[0] for tables in (cdm, typed)]
    maps = [f"local/{path.name}" for path in (sites[0] / "local").glob("*.parquet")]
    assert len(maps) >= 2
    for name in ("events.parquet", *maps):
        first, second = (pq.read_table(site / name) for site in sites)
        assert first.equals(second), name


def test_a_day_takes_the_place_of_a_visit_also_where_ids_are_whole_numbers(tmp_path, cdm):
    typed = as_parquet(cdm, tmp_path / "typed")
    sites = [run_ingest(OMOP(), tables, without_visit="date")[0] for tables in (cdm, typed)]
    first, second = (pq.read_table(site / "local/windows.parquet") for site in sites)
    assert first.equals(second)
    assert "day 2020-03-01" in first["visit"].to_pylist()
