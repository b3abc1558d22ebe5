-- A procedure that was done.
SELECT
    NULL::VARCHAR AS site,
    patient_of(json) AS patient,
    CASE
        WHEN $encounters_known THEN encounters.stay ELSE encounter_of(json)
    END AS visit,
    wall_clock(coalesce(
        field(json, '$.performedDateTime'), field(json, '$.performedPeriod.start'), given_at(json)
    )) AS starts,
    NULL::TIMESTAMP AS ends,
    concept_code(piece(json, '$.code'), 'folded', false) AS code,
    concept_label(piece(json, '$.code')) AS label,
    CASE
        WHEN encounter_of(json) IS NULL THEN 'none'
        WHEN $encounters_known AND encounters.id IS NULL THEN 'dangling'
    END AS visit_note,
    NULL::VARCHAR AS note,
    1 AS part,
    CASE WHEN stale THEN 'older version or copy' ELSE undone(field(json, '$.status')) END AS fate
FROM src.procedure
LEFT JOIN encounters ON encounters.id = encounter_of(json)
