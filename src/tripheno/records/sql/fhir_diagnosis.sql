-- A condition that was not refuted.
SELECT
    NULL::VARCHAR AS site,
    patient_of(json) AS patient,
    CASE
        WHEN $encounters_known THEN encounters.stay ELSE encounter_of(json)
    END AS visit,
    wall_clock(coalesce(
        field(json, '$.onsetDateTime'), field(json, '$.onsetPeriod.start'), field(json, '$.recordedDate')
    )) AS starts,
    NULL::TIMESTAMP AS ends,
    concept_code(piece(json, '$.code'), 'folded', false) AS code,
    concept_label(piece(json, '$.code')) AS label,
    CASE
        WHEN encounter_of(json) IS NULL THEN 'none'
        WHEN $encounters_known AND encounters.id IS NULL THEN 'dangling'
    END AS visit_note,
    coding_note(piece(json, '$.code')) AS note,
    1 AS part,
    CASE
        WHEN stale THEN 'older version or copy'
        WHEN list_contains(verified(json), 'entered-in-error')
            THEN 'entered in error'
        WHEN list_contains(verified(json), 'refuted') THEN 'refuted'
        ELSE coding_fate(shared_coding(codings_of(piece(json, '$.code'))))
    END AS fate
FROM src.condition
LEFT JOIN encounters ON encounters.id = encounter_of(json)
