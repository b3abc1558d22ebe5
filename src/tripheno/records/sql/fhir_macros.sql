-- What FHIR resources have in common.

-- A field as text (a list of texts where the path has a *), and a piece as JSON.
CREATE MACRO field(resource, path) AS json_extract_string(resource, path);

CREATE MACRO piece(resource, path) AS json_extract(resource, path);

-- The id in a reference: Patient/1, a full address, or urn:uuid:1. A search (Patient?identifier=…)
-- or a part of the resource itself (#p) names nobody.
CREATE MACRO ref_id(reference) AS CASE
    WHEN contains(reference, '?') OR contains(reference, '#') THEN NULL
    ELSE nullif(regexp_extract(rtrim(regexp_replace(tidy(reference), '/_history/.*$', ''), '/'), '([^/:]+)$', 1), '')
END;

CREATE MACRO person_id(reference) AS CASE
    WHEN NOT regexp_matches(reference, '(^|/)(Group|Device|Location|Practitioner|Medication|Substance)/')
        THEN ref_id(reference)
END;

-- What R4 and R5 (and STU3) name differently.
CREATE MACRO patient_of(json) AS person_id(coalesce(
    field(json, '$.subject.reference'), field(json, '$.patient.reference')));

CREATE MACRO encounter_of(json) AS ref_id(coalesce(
    field(json, '$.encounter.reference'), field(json, '$.context.reference')));

CREATE MACRO medication_of(json) AS coalesce(
    field(json, '$.medicationReference.reference'), field(json, '$.medication.reference.reference'));

CREATE MACRO concept_of(json) AS coalesce(
    piece(json, '$.medicationCodeableConcept'), piece(json, '$.medication.concept'));

CREATE MACRO given_at(json) AS coalesce(
    field(json, '$.occurenceDateTime'), field(json, '$.occurencePeriod.start'),
    field(json, '$.occurrenceDateTime'), field(json, '$.occurrencePeriod.start'));

CREATE MACRO verified(json) AS list_transform(
    list_concat(
        field(json, '$.verificationStatus.coding[*].code'),
        [field(json, '$.verificationStatus'), field(json, '$.verificationStatus.text')]
    ),
    lambda status: lower(status)
);

-- A system in one spelling: https, a slash or a version (|2024) at the end and registered numbers
-- (OIDs) are other names.
CREATE MACRO plain_system(system) AS CASE regexp_replace(tidy(system), '^urn:oid:|\|.*$', '', 'g')
    WHEN '2.16.840.1.113883.6.88' THEN 'http://www.nlm.nih.gov/research/umls/rxnorm'
    WHEN '2.16.840.1.113883.6.90' THEN 'http://hl7.org/fhir/sid/icd-10-cm'
    WHEN '2.16.840.1.113883.6.103' THEN 'http://hl7.org/fhir/sid/icd-9-cm'
    WHEN 'http://www.cms.gov/Medicare/Coding/ICD10' THEN 'http://www.cms.gov/Medicare/Coding/ICD10PCS'
    WHEN '2.16.840.1.113883.6.4' THEN 'http://www.cms.gov/Medicare/Coding/ICD10PCS'
    WHEN '2.16.840.1.113883.6.1' THEN 'http://loinc.org'
    WHEN '2.16.840.1.113883.6.96' THEN 'http://snomed.info/sct'
    WHEN '2.16.840.1.113883.6.69' THEN 'http://hl7.org/fhir/sid/ndc'
    WHEN '2.16.840.1.113883.6.12' THEN 'http://www.ama-assn.org/go/cpt'
    ELSE regexp_replace(rtrim(regexp_replace(tidy(system), '\|.*$', ''), '/'), '^https:', 'http:')
END;

-- The coding that hospitals share, where a concept has several: the first of the systems listed here,
-- else the first coding. A value in [brackets] given to a lambda is worked out once, not per use.
CREATE MACRO shared_coding(codings) AS list_transform([codings], lambda held: coalesce(
    list_filter(
        list_transform(
            [
                'http://www.nlm.nih.gov/research/umls/rxnorm',
                'http://hl7.org/fhir/sid/icd-10-cm',
                'http://hl7.org/fhir/sid/icd-9-cm',
                'http://loinc.org',
                'http://www.ama-assn.org/go/cpt',
                'http://snomed.info/sct',
                'http://www.whocc.no/atc',
                'http://hl7.org/fhir/sid/ndc'
            ],
            lambda wanted: list_filter(held, lambda c: c.system = wanted)[1]
        ),
        lambda found: found IS NOT NULL
    )[1],
    held[1]
))[1];

CREATE MACRO codings_of(concept) AS list_filter(
    list_transform(
        from_json(
            piece(concept, '$.coding'),
            '[{"system":"VARCHAR","code":"VARCHAR","display":"VARCHAR"}]'
        ),
        lambda c: {'system': plain_system(c.system), 'code': tidy(c.code), 'display': c.display}
    ),
    lambda c: c.code IS NOT NULL AND NOT list_contains(getvariable('missing'), c.code)
);

-- Why a coding is none: an ICD code must have the form of its system.
CREATE MACRO coding_fate(given) AS list_transform([given], lambda coding: CASE
    WHEN regexp_matches(lower(coding.system), 'icd-?10(-cm)?$') AND NOT is_icd10(coding.code)
        THEN 'not an ICD-10 code'
    WHEN regexp_matches(lower(coding.system), 'icd-?9(-cm)?$') AND NOT is_icd9(coding.code)
        THEN 'not an ICD-9 code'
END)[1];

-- Which rule decided: words where there is no coding, or a coding that does not say of which system.
CREATE MACRO coding_note(concept) AS CASE
    WHEN concept IS NULL THEN NULL
    WHEN coalesce(len(codings_of(concept)), 0) = 0 THEN 'words, no code'
    WHEN coalesce(shared_coding(codings_of(concept)).system, '') = '' THEN 'a code without its system'
END;

-- A code in one spelling: the system's short name and the code.
CREATE MACRO system_name(system) AS CASE
    WHEN system = 'http://www.nlm.nih.gov/research/umls/rxnorm' THEN 'RxNorm'
    WHEN system = 'http://snomed.info/sct' THEN 'SNOMED'
    WHEN system = 'http://loinc.org' THEN 'LOINC'
    WHEN system = 'http://www.ama-assn.org/go/cpt' THEN 'CPT4'
    WHEN system = 'http://www.whocc.no/atc' THEN 'ATC'
    WHEN regexp_matches(system, '\bndc$') THEN 'NDC'
    ELSE regexp_extract(system, '([^/:]+)/?$', 1)
END;

CREATE MACRO spelt(given, names, strip) AS list_transform([given], lambda coding: CASE
    WHEN coding.code IS NULL THEN NULL
    WHEN regexp_matches(lower(coding.system), 'icd-?10(-cm)?$') THEN icd10(coding.code)
    WHEN regexp_matches(lower(coding.system), 'icd-?9(-cm)?$') THEN icd9(coding.code)
    WHEN regexp_matches(lower(coding.system), 'icd-?10-?pcs$')
        THEN 'ICD10PCS:' || upper(trim(coding.code))
    WHEN coalesce(coding.system, '') = '' OR ends_with(lower(coding.system), 'name')
        THEN drug_code(coding.code, names, strip)
    ELSE system_name(coding.system) || ':' || trim(coding.code)
END)[1];

-- Why a resource says that nothing happened.
CREATE MACRO undone(status) AS CASE
    WHEN lower(status) = 'entered-in-error' THEN 'entered in error'
    WHEN lower(status) IN ('cancelled', 'draft', 'not-done', 'not-taken', 'preparation', 'registered')
        THEN 'never done'
END;

CREATE MACRO status_note(status) AS CASE
    WHEN lower(status) NOT IN (
        'active', 'on-hold', 'ended', 'stopped', 'completed', 'in-progress', 'preparation', 'unknown', 'final',
        'preliminary', 'amended', 'corrected', 'appended', 'entered-in-error', 'cancelled', 'draft',
        'not-done', 'not-taken', 'registered'
    ) THEN 'unknown status'
END;

-- A concept's code and label: a coding, or its text where it has none.
CREATE MACRO concept_code(concept, names, strip) AS coalesce(
    spelt(shared_coding(codings_of(concept)), names, strip),
    drug_code(field(concept, '$.text'), names, strip)
);

CREATE MACRO concept_label(concept) AS coalesce(
    field(concept, '$.text'),
    list_transform([codings_of(concept)], lambda held: coalesce(
        shared_coding(held).display,
        list_filter(held, lambda c: c.display IS NOT NULL)[1].display,
        list_filter(held, lambda c: ends_with(lower(c.system), 'name'))[1].code
    ))[1]
);
