-- What FHIR resources have in common.

-- A field as text (a list of texts where the path has a *), and a piece as JSON.
CREATE MACRO field(resource, path) AS json_extract_string(resource, path);

CREATE MACRO piece(resource, path) AS json_extract(resource, path);

-- The id in a reference: Patient/1, a full address, or urn:uuid:1.
CREATE MACRO ref_id(reference) AS regexp_extract(
    regexp_replace(reference, '/_history/.*$', ''), '([^/:]+)$', 1);

-- What R4 and R5 (and STU3) name differently.
CREATE MACRO patient_of(json) AS ref_id(coalesce(
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

CREATE MACRO verified(json) AS list_append(
    field(json, '$.verificationStatus.coding[*].code'), field(json, '$.verificationStatus'));

-- The coding that hospitals share, where a concept has several; else the first.
CREATE MACRO shared_coding(codings) AS coalesce(
    list_filter(codings, lambda c: c.system = 'http://www.nlm.nih.gov/research/umls/rxnorm')[1],
    list_filter(codings, lambda c: c.system = 'http://hl7.org/fhir/sid/icd-10-cm')[1],
    list_filter(codings, lambda c: c.system = 'http://hl7.org/fhir/sid/icd-9-cm')[1],
    list_filter(codings, lambda c: c.system = 'http://loinc.org')[1],
    list_filter(codings, lambda c: c.system = 'http://www.ama-assn.org/go/cpt')[1],
    list_filter(codings, lambda c: c.system = 'http://snomed.info/sct')[1],
    list_filter(codings, lambda c: c.system = 'http://www.whocc.no/atc')[1],
    list_filter(codings, lambda c: c.system = 'http://hl7.org/fhir/sid/ndc')[1],
    codings[1]
);

CREATE MACRO codings_of(concept) AS list_filter(
    from_json(
        piece(concept, '$.coding'),
        '[{"system":"VARCHAR","code":"VARCHAR","display":"VARCHAR"}]'
    ),
    lambda c: trim(coalesce(c.code, '')) <> ''
);

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

CREATE MACRO spelt(coding, names, strip) AS CASE
    WHEN coding.code IS NULL THEN NULL
    WHEN regexp_matches(lower(coding.system), 'icd-?10(-cm)?$') THEN icd10(coding.code)
    WHEN regexp_matches(lower(coding.system), 'icd-?9(-cm)?$') THEN icd9(coding.code)
    WHEN regexp_matches(lower(coding.system), 'icd-?10-?pcs$')
        THEN 'ICD10PCS:' || upper(trim(coding.code))
    WHEN coalesce(coding.system, '') = '' OR ends_with(lower(coding.system), 'name')
        THEN drug_code(coding.code, names, strip)
    ELSE system_name(coding.system) || ':' || trim(coding.code)
END;

-- Why a resource says that nothing happened.
CREATE MACRO undone(status) AS CASE
    WHEN status = 'entered-in-error' THEN 'entered in error'
    WHEN status IN ('cancelled', 'draft', 'not-done', 'preparation', 'registered') THEN 'never done'
END;

-- A concept's code and label: a coding, or its text where it has none.
CREATE MACRO concept_code(concept, names, strip) AS coalesce(
    spelt(shared_coding(codings_of(concept)), names, strip),
    drug_code(field(concept, '$.text'), names, strip)
);

CREATE MACRO concept_label(concept) AS coalesce(
    field(concept, '$.text'),
    shared_coding(codings_of(concept)).display,
    list_filter(codings_of(concept), lambda c: c.display IS NOT NULL)[1].display,
    list_filter(codings_of(concept), lambda c: ends_with(lower(c.system), 'name'))[1].code
);
