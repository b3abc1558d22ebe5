-- A condition that was not refuted.
SELECT
    NULL::VARCHAR AS site,
    ref_id(field(json, '$.subject.reference')) AS patient,
    CASE
        WHEN $encounters_known THEN encounters.id ELSE ref_id(field(json, '$.encounter.reference'))
    END AS visit,
    wall_clock(coalesce(
        field(json, '$.onsetDateTime'), field(json, '$.onsetPeriod.start'), field(json, '$.recordedDate')
    )) AS starts,
    NULL::TIMESTAMP AS ends,
    concept_code(piece(json, '$.code'), 'folded', false) AS code,
    concept_label(piece(json, '$.code')) AS label,
    CASE
        WHEN field(json, '$.encounter.reference') IS NULL THEN 'none'
        WHEN $encounters_known AND encounters.id IS NULL THEN 'dangling'
    END AS visit_note,
    NULL::VARCHAR AS note,
    1 AS part,
    CASE
        WHEN list_contains(field(json, '$.verificationStatus.coding[*].code'), 'entered-in-error')
            THEN 'entered in error'
        WHEN list_contains(field(json, '$.verificationStatus.coding[*].code'), 'refuted') THEN 'refuted'
    END AS fate
FROM src.condition
LEFT JOIN encounters ON encounters.id = ref_id(field(json, '$.encounter.reference'))
