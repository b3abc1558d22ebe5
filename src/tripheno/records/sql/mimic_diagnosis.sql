-- A diagnosis billed for an admission, in ICD-9 (III and older records of IV) or ICD-10.
WITH spelt AS (
    SELECT
        *,
        CASE
            WHEN coalesce(icd_version, '9') = '10' THEN icd10(icd_code) ELSE icd9(icd_code)
        END AS code
    FROM src.diagnoses_icd
),
names AS (
    SELECT
        CASE
            WHEN coalesce(icd_version, '9') = '10' THEN icd10(icd_code) ELSE icd9(icd_code)
        END AS code,
        any_value(long_title) AS label
    FROM src.d_icd_diagnoses
    GROUP BY 1
)
SELECT
    NULL::VARCHAR AS site,
    subject_id AS patient,
    hadm_id AS visit,
    NULL::TIMESTAMP AS starts,
    NULL::TIMESTAMP AS ends,
    spelt.code,
    names.label,
    CASE WHEN hadm_id IS NULL THEN 'none' END AS visit_note,
    NULL::VARCHAR AS note,
    1 AS part,
    NULL::VARCHAR AS fate
FROM spelt
LEFT JOIN names ON names.code = spelt.code
