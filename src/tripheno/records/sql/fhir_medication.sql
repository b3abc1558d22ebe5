-- An order of a medication, or a medication that was given: {resource}.
WITH requests AS (
    SELECT
        stale,
        json,
        patient_of(json) AS patient,
        encounter_of(json) AS encounter,
        CASE
            WHEN starts_with(medication_of(json), '#')
                THEN (field(json, '$.id')) || (medication_of(json))
            ELSE ref_id(medication_of(json))
        END AS medication
    FROM src.{resource}
),
resolved AS (
    SELECT
        requests.*,
        coalesce(concept_of(json), parts.concept) AS concept,
        coalesce(concept_label(concept_of(json)), parts.label) AS label,
        coalesce(parts.part, 1) AS part
    FROM requests
    LEFT JOIN medication_parts AS parts
        ON parts.id = requests.medication
        AND concept_of(json) IS NULL
),
spelt_out AS (
    SELECT *, concept_code(concept, $drug_names, $strip_strength) AS code FROM resolved
)
SELECT
    NULL::VARCHAR AS site,
    patient,
    CASE WHEN $encounters_known THEN encounters.stay ELSE encounter END AS visit,
    wall_clock(CASE '{resource}' WHEN 'medicationrequest' THEN coalesce(
        field(json, '$.dispenseRequest.validityPeriod.start'),
        field(json, '$.dosageInstruction[0].timing.repeat.boundsPeriod.start'),
        field(json, '$.authoredOn')
    ) ELSE coalesce(
        field(json, '$.effectiveDateTime'), field(json, '$.effectivePeriod.start'), given_at(json)
    ) END) AS starts,
    wall_clock(CASE '{resource}' WHEN 'medicationrequest' THEN coalesce(
        field(json, '$.dispenseRequest.validityPeriod.end'),
        field(json, '$.dosageInstruction[0].timing.repeat.boundsPeriod.end')
    ) ELSE coalesce(
        field(json, '$.effectivePeriod.end'), field(json, '$.occurencePeriod.end'),
        field(json, '$.occurrencePeriod.end')
    ) END) AS ends,
    code,
    coalesce(
        label,
        CASE WHEN NOT contains(code, ':') THEN trim(shared_coding(codings_of(concept)).code) END
    ) AS label,
    CASE
        WHEN encounter IS NULL THEN 'none'
        WHEN $encounters_known AND encounters.id IS NULL THEN 'dangling'
    END AS visit_note,
    coding_note(concept) AS note,
    CAST(part AS INTEGER) AS part,
    CASE
        WHEN stale THEN 'older version or copy'
        WHEN undone(field(json, '$.status')) IS NOT NULL THEN undone(field(json, '$.status'))
        WHEN '{resource}' = 'medicationrequest' AND (
            field(json, '$.doNotPerform') = 'true'
            OR lower(field(json, '$.intent')) IN ('proposal', 'plan', 'option')
        ) THEN 'never done'
        WHEN '{resource}' = 'medicationadministration' AND 'true' IN (
            field(json, '$.notGiven'), field(json, '$.wasNotGiven')
        ) THEN 'never done'
        WHEN concept IS NULL AND medication IS NOT NULL THEN 'medication not found'
    END AS fate
FROM spelt_out
LEFT JOIN encounters ON encounters.id = spelt_out.encounter
