"""FHIR R4: references, mixtures, interpretations and what was entered in error."""

import gzip
import json

import pytest

from tripheno.errors import MissingTable, UnknownRecords, UnreadableTable
from tripheno.records.fhir import FHIR
from tripheno.testing.small_tables import cells, run_ingest

RXNORM, LOINC = "http://www.nlm.nih.gov/research/umls/rxnorm", "http://loinc.org"
SNOMED, ICD10 = "http://snomed.info/sct", "http://hl7.org/fhir/sid/icd-10-cm"


def concept(system, code, display=None):
    return {"coding": [{"system": system, "code": code, "display": display}]}


def of(patient="a", visit="v", **more):
    encounter = {"encounter": {"reference": f"Encounter/{visit}"}} if visit else {}
    return {"subject": {"reference": f"Patient/{patient}"}, **encounter, **more}


def request(**more):
    return of(resourceType="MedicationRequest", status="active", **more)


ASPIRIN = concept(RXNORM, "1191", "aspirin")
CONDITION = of(resourceType="Condition", code=concept(ICD10, "I10", "Hypertension"))
ENCOUNTER = {"resourceType": "Encounter", "id": "v", "status": "finished"}


@pytest.fixture
def export(tmp_path):
    def write(*resources):
        folder = tmp_path / "export"
        folder.mkdir(exist_ok=True)
        by_kind = {}
        for resource in (*resources, ENCOUNTER):
            by_kind.setdefault(resource["resourceType"], []).append(json.dumps(resource))
        for kind, lines in by_kind.items():
            (folder / f"{kind}.000.ndjson").write_text("\n".join(lines) + "\n")
        return folder

    return write


def table_of(result, name):
    return next(table for table in result.sites[0].tables if table.table == name)


def test_a_medication_reference_is_resolved(export):
    medication = {"resourceType": "Medication", "id": "m", "code": ASPIRIN}
    asked = request(medicationReference={"reference": "http://server/fhir/Medication/m/_history/2"})
    site, _ = run_ingest(FHIR(), export(medication, asked, CONDITION))
    assert cells(site) == {("a", "RxNorm:1191", "ICD10CM:I10"): 1}


def test_a_mixture_gives_its_parts(export):
    mixture = {
        "resourceType": "Medication",
        "id": "mix",
        "ingredient": [
            {"itemReference": {"reference": "Medication/m"}},
            {"itemCodeableConcept": concept(RXNORM, "9863", "saline")},
        ],
    }
    medication = {"resourceType": "Medication", "id": "m", "code": ASPIRIN}
    asked = request(medicationReference={"reference": "Medication/mix"})
    site, result = run_ingest(FHIR(), export(mixture, medication, asked, CONDITION))
    assert {drug for _, drug, _ in cells(site)} == {"RxNorm:1191", "RxNorm:9863"}
    assert table_of(result, "MedicationRequest").read == 1


def test_a_contained_medication_is_resolved(export):
    inside = {"resourceType": "Medication", "id": "m", "code": ASPIRIN}
    asked = request(id="r", contained=[inside], medicationReference={"reference": "#m"})
    site, _ = run_ingest(FHIR(), export(asked, CONDITION))
    assert cells(site) == {("a", "RxNorm:1191", "ICD10CM:I10"): 1}


def test_a_reference_to_nothing_is_counted(export):
    lost = request(medicationReference={"reference": "Medication/gone"})
    known = request(medicationCodeableConcept=ASPIRIN)
    _, result = run_ingest(FHIR(), export(lost, known, CONDITION))
    assert table_of(result, "MedicationRequest").dropped == {"medication not found": 1}


def test_what_was_entered_in_error_refuted_or_never_done_is_dropped(export):
    asked = request(medicationCodeableConcept=ASPIRIN)
    wrong = {**asked, "status": "entered-in-error"}
    not_given = {**asked, "doNotPerform": True}
    status = {"coding": [{"code": "entered-in-error"}]}
    false = {**CONDITION, "verificationStatus": status}
    refuted = {**CONDITION, "verificationStatus": {"coding": [{"code": "refuted"}]}}
    _, result = run_ingest(FHIR(), export(asked, wrong, not_given, CONDITION, false, refuted))
    assert table_of(result, "MedicationRequest").dropped == {"entered in error": 1, "never done": 1}
    assert table_of(result, "Condition").dropped == {"entered in error": 1, "refuted": 1}


def test_administrations_count_as_medication_beside_requests(export):
    given = of(
        resourceType="MedicationAdministration", visit=None, status="completed",
        context={"reference": "Encounter/v"}, medicationCodeableConcept=concept(RXNORM, "5224"),
        effectivePeriod={"start": "2020-01-01T08:00:00Z", "end": "2020-01-01T09:00:00Z"},
    )  # fmt: skip
    skipped = {**given, "status": "not-done"}
    asked = request(medicationCodeableConcept=ASPIRIN)
    site, result = run_ingest(FHIR(), export(given, skipped, asked, CONDITION))
    assert {drug for _, drug, _ in cells(site)} == {"RxNorm:1191", "RxNorm:5224"}
    assert table_of(result, "MedicationAdministration").dropped == {"never done": 1}


def observation(code, category="laboratory", **more):
    return of(
        resourceType="Observation", status="final", code=concept(LOINC, code),
        category=[{"coding": [{"code": category}]}], effectiveDateTime="2020-01-01T06:00:00Z",
        **more,
    )  # fmt: skip


def test_observations_are_judged_by_interpretation_then_by_range(export):
    def flag(code):
        return {"interpretation": [{"coding": [{"code": code}]}]}

    def value(number, low=None, high=None):
        given = {"low": {"value": low}} if low is not None else {}
        given |= {"high": {"value": high}} if high is not None else {}
        return {"valueQuantity": {"value": number}, "referenceRange": [given] if given else []}

    resources = [
        observation("high", **flag("H")),
        observation("normal-though-out-of-range", **flag("N"), **value(9, 1, 2)),
        observation("above", **value(9, high=5)),
        observation("within", **value(3, 1, 5)),
        observation("odd-flag-low", **flag("X"), **value(0.5, low=1)),
        observation("nothing", **value(3)),
        observation("pulse", category="vital-signs", **flag("H")),
        {**observation("wrong", **flag("H")), "status": "entered-in-error"},
    ]
    asked = request(medicationCodeableConcept=ASPIRIN)
    site, result = run_ingest(FHIR(), export(*resources, asked), ("medication", "lab"))
    assert {lab for *_, lab in cells(site)} == {"LOINC:high", "LOINC:above", "LOINC:odd-flag-low"}
    labs = table_of(result, "Observation")
    assert labs.dropped == {
        "entered in error": 1, "no rule for abnormal": 1, "not abnormal": 2, "not laboratory": 1,
    }  # fmt: skip


def test_procedures_that_were_done_count(export):
    done = of(
        resourceType="Procedure", status="completed",
        code=concept(SNOMED, "80146002", "Appendectomy"),
        performedPeriod={"start": "2020-01-01"},
    )  # fmt: skip
    asked = request(medicationCodeableConcept=ASPIRIN)
    resources = (done, {**done, "status": "not-done"}, asked)
    site, result = run_ingest(FHIR(), export(*resources), ("medication", "procedure"))
    assert cells(site) == {("a", "RxNorm:1191", "SNOMED:80146002"): 1}
    assert table_of(result, "Procedure").dropped == {"never done": 1}


def test_of_several_codings_the_one_that_hospitals_share_is_taken(export):
    coding = [{"system": "urn:local", "code": "HTN"}, {"system": ICD10, "code": "I10"}]
    two = of(resourceType="Condition", code={"coding": coding, "text": "high pressure"})
    site, _ = run_ingest(FHIR(), export(two, request(medicationCodeableConcept=ASPIRIN)))
    assert cells(site) == {("a", "RxNorm:1191", "ICD10CM:I10"): 1}


def test_an_encounter_that_is_not_there_is_dangling(export):
    lost = of(visit="elsewhere", resourceType="Condition", code=concept(ICD10, "E11.9"))
    asked = request(medicationCodeableConcept=ASPIRIN)
    _, result = run_ingest(FHIR(), export(lost, CONDITION, asked))
    assert table_of(result, "Condition").visits == {"dangling": 1}


def test_a_damaged_line_is_named_and_never_shown(export):
    folder = export(CONDITION, request(medicationCodeableConcept=ASPIRIN))
    with (folder / "Condition.000.ndjson").open("a") as stream:
        stream.write('{"resourceType": "Condition", "secret": \n')
    with pytest.raises(UnreadableTable, match="not JSON") as caught:
        run_ingest(FHIR(), folder)
    assert "secret" not in str(caught.value)


def test_compressed_files_are_read(export):
    folder = export(CONDITION, request(medicationCodeableConcept=ASPIRIN))
    for path in list(folder.iterdir()):
        (folder / f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
    site, _ = run_ingest(FHIR(), folder)
    assert cells(site) == {("a", "RxNorm:1191", "ICD10CM:I10"): 1}


def test_a_folder_without_resources_and_one_without_the_right_ones_are_refused(export, tmp_path):
    with pytest.raises(MissingTable, match="MedicationRequest or MedicationAdministration"):
        run_ingest(FHIR(), export(CONDITION))
    (tmp_path / "empty").mkdir()
    with pytest.raises(UnknownRecords, match="No FHIR resources"):
        run_ingest(FHIR(), tmp_path / "empty")
