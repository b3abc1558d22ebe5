-- A procedure billed for an admission. MIMIC-IV has its day.
WITH spelt AS (
    SELECT *, icd_version_of(icd_version, $version) AS version, icd_procedure(icd_code, version) AS code
    FROM src.procedures_icd
),
names AS (
    SELECT icd_procedure(icd_code, icd_version_of(icd_version, $version)) AS code, min(long_title) AS label
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
    icd_fate(icd_code, version, spelt.code) AS fate
FROM spelt
LEFT JOIN names ON names.code = spelt.code
