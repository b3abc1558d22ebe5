-- A procedure billed for an admission. MIMIC-IV has its day.
WITH spelt AS (
    SELECT
        *,
        CASE WHEN coalesce(icd_version, '9') = '10' THEN 'ICD10PCS:' || upper(trim(icd_code))
        ELSE icd9_procedure(icd_code) END AS code
    FROM src.procedures_icd
),
names AS (
    SELECT
        CASE WHEN coalesce(icd_version, '9') = '10' THEN 'ICD10PCS:' || upper(trim(icd_code))
        ELSE icd9_procedure(icd_code) END AS code,
        any_value(long_title) AS label
    FROM src.d_icd_procedures
    GROUP BY 1
)
SELECT
    NULL::VARCHAR AS site,
    subject_id AS patient,
    hadm_id AS visit,
    chartdate AS starts,
    NULL::TIMESTAMP AS ends,
    spelt.code,
    names.label,
    CASE WHEN hadm_id IS NULL THEN 'none' END AS visit_note,
    NULL::VARCHAR AS note,
    1 AS part,
    NULL::VARCHAR AS fate
FROM spelt
LEFT JOIN names ON names.code = spelt.code
