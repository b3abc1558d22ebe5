-- A medication that was ordered or given.
WITH orders AS (
    SELECT
        *,
        patient_of(json) AS patient,
        encounter_of(json) AS encounter,
        concept_of(json) AS own_concept,
        CASE
            WHEN starts_with(medication_of(json), '#') THEN field(json, '$.id') || medication_of(json)
            ELSE ref_id(medication_of(json))
        END AS medication
    FROM src.{view}
)
SELECT
    stale,
    field(json, '$.status') AS status,
    patient,
    encounter,
    wall_clock({starts}) AS starts,
    wall_clock({ends}) AS ends,
    coalesce(own_concept, parts.concept) AS concept,
    coalesce(concept_label(own_concept), parts.label) AS label,
    NULL::VARCHAR AS own_code,
    NULL::VARCHAR AS note,
    coalesce(parts.part, 1) AS part,
    CASE
        WHEN {never} THEN 'never done'
        WHEN coalesce(own_concept, parts.concept) IS NULL AND medication IS NOT NULL
            THEN 'medication not found'
    END AS fate
FROM orders
LEFT JOIN medication_parts AS parts ON parts.id = orders.medication AND own_concept IS NULL
