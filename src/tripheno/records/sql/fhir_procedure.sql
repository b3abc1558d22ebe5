-- A procedure that was done. ICD-9 has one system for diagnoses and procedures: here it is these.
SELECT
    stale,
    field(json, '$.status') AS status,
    patient_of(json) AS patient,
    encounter_of(json) AS encounter,
    wall_clock(coalesce(
        field(json, '$.performedDateTime'), field(json, '$.performedPeriod.start'), given_at(json)
    )) AS starts,
    NULL::TIMESTAMP AS ends,
    piece(json, '$.code') AS concept,
    concept_label(concept) AS label,
    list_transform([shared_coding(codings_of(concept))], lambda coding: CASE
        WHEN regexp_matches(lower(coding.system), 'icd-?9(-cm)?$') THEN icd_procedure(coding.code, '9')
    END)[1] AS own_code,
    NULL::VARCHAR AS note,
    1 AS part,
    list_transform([shared_coding(codings_of(concept))], lambda coding: CASE
        WHEN regexp_matches(lower(coding.system), 'icd-?9(-cm)?$') AND NOT is_icd9_procedure(coding.code)
            THEN 'not an ICD-9 code'
        WHEN regexp_matches(lower(coding.system), 'icd-?10-?pcs$') AND NOT is_icd10_procedure(coding.code)
            THEN 'not an ICD-10 code'
    END)[1] AS fate
FROM src.procedure
