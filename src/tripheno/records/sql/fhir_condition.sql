-- A condition that was not refuted.
SELECT
    stale,
    NULL::VARCHAR AS status,
    patient_of(json) AS patient,
    encounter_of(json) AS encounter,
    wall_clock(coalesce(
        field(json, '$.onsetDateTime'), field(json, '$.onsetPeriod.start'), field(json, '$.recordedDate')
    )) AS starts,
    NULL::TIMESTAMP AS ends,
    piece(json, '$.code') AS concept,
    concept_label(concept) AS label,
    NULL::VARCHAR AS own_code,
    NULL::VARCHAR AS note,
    1 AS part,
    CASE
        WHEN list_contains(verified(json), 'entered-in-error') THEN 'entered in error'
        WHEN list_contains(verified(json), 'refuted') THEN 'refuted'
        ELSE coding_fate(shared_coding(codings_of(concept)))
    END AS fate
FROM src.condition
