-- A medication that was given.
WITH requests AS (
    SELECT
        json,
        ref_id(json_extract_string(json, '$.subject.reference')) AS patient,
        ref_id(coalesce(json_extract_string(json, '$.context.reference'), json_extract_string(json, '$.encounter.reference'))) AS encounter,
        CASE
            WHEN starts_with(json_extract_string(json, '$.medicationReference.reference'), '#')
                THEN (json_extract_string(json, '$.id')) || (json_extract_string(json, '$.medicationReference.reference'))
            ELSE ref_id(json_extract_string(json, '$.medicationReference.reference'))
        END AS medication
    FROM src.medicationadministration
),
resolved AS (
    SELECT
        requests.*,
        coalesce(json_extract(json, '$.medicationCodeableConcept'), parts.concept) AS concept,
        coalesce(concept_label(json_extract(json, '$.medicationCodeableConcept')), parts.label) AS label,
        coalesce(parts.part, 1) AS part
    FROM requests
    LEFT JOIN medication_parts AS parts
        ON parts.id = requests.medication
        AND NOT json_exists(json, '$.medicationCodeableConcept')
),
spelt_out AS (
    SELECT *, concept_code(concept, $drug_names, $strip_strength) AS code FROM resolved
)
SELECT
    NULL::VARCHAR AS site,
    patient,
    CASE WHEN $encounters_known THEN encounters.id ELSE encounter END AS visit,
    wall_clock(coalesce(
        json_extract_string(json, '$.effectiveDateTime'), json_extract_string(json, '$.effectivePeriod.start')
    )) AS starts,
    wall_clock(json_extract_string(json, '$.effectivePeriod.end')) AS ends,
    code,
    coalesce(
        label,
        CASE WHEN NOT contains(code, ':') THEN trim(shared_coding(codings_of(concept)).code) END
    ) AS label,
    CASE
        WHEN encounter IS NULL THEN 'none'
        WHEN $encounters_known AND encounters.id IS NULL THEN 'dangling'
    END AS visit_note,
    NULL::VARCHAR AS note,
    CAST(part AS INTEGER) AS part,
    CASE
        WHEN undone(json_extract_string(json, '$.status')) IS NOT NULL THEN undone(json_extract_string(json, '$.status'))
        WHEN concept IS NULL AND medication IS NOT NULL THEN 'medication not found'
    END AS fate
FROM spelt_out
LEFT JOIN encounters ON encounters.id = spelt_out.encounter
