-- A diagnosis billed for an admission, in ICD-9 (III and older records of IV) or ICD-10. A field
-- with several codes gives several rows, those with the form of their version first. What a field
-- means is worked out once, however many rows have it.
WITH fields AS (
    SELECT *, valid_first(pieces(icd_code), version) AS codes
    FROM (
        SELECT DISTINCT icd_code, icd_version, icd_version_of(icd_version, $version) AS version
        FROM src.diagnoses_icd
    )
),
parts AS (
    SELECT * EXCLUDE (codes), unnest(codes) AS piece, unnest(range(1, len(codes) + 1)) AS part FROM fields
),
spelt AS (
    SELECT *, icd_diagnosis(piece, version) AS code FROM parts
),
names AS (
    SELECT icd_diagnosis(icd_code, icd_version_of(icd_version, $version)) AS code, min(long_title) AS label
    FROM src.d_icd_diagnoses
    GROUP BY 1
),
meanings AS (
    SELECT spelt.*, names.label, icd_fate(piece, version, spelt.code) AS fate
    FROM spelt
    LEFT JOIN names ON names.code = spelt.code
)
SELECT
    NULL::VARCHAR AS site,
    billed.subject_id AS patient,
    billed.hadm_id AS visit,
    NULL::TIMESTAMP AS starts,
    NULL::TIMESTAMP AS ends,
    meanings.code,
    meanings.label,
    CASE WHEN billed.hadm_id IS NULL THEN 'none' END AS visit_note,
    NULL::VARCHAR AS note,
    meanings.part,
    meanings.fate
FROM src.diagnoses_icd AS billed
JOIN meanings
    ON meanings.icd_code IS NOT DISTINCT FROM billed.icd_code
    AND meanings.icd_version IS NOT DISTINCT FROM billed.icd_version
