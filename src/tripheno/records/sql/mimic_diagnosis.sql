-- A diagnosis billed for an admission, in ICD-9 (III and older records of IV) or ICD-10. A field
-- with several codes gives several rows, those with the form of their version first.
WITH split AS (
    SELECT
        subject_id,
        hadm_id,
        icd_version_of(icd_version, $version) AS version,
        valid_first(pieces(icd_code), icd_version_of(icd_version, $version)) AS codes
    FROM src.diagnoses_icd
),
parts AS (
    SELECT * EXCLUDE (codes), unnest(codes) AS piece, unnest(range(1, len(codes) + 1)) AS part FROM split
),
spelt AS (
    SELECT *, icd_diagnosis(piece, version) AS code FROM parts
),
names AS (
    SELECT icd_diagnosis(icd_code, icd_version_of(icd_version, $version)) AS code, min(long_title) AS label
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
    part,
    icd_fate(piece, version, spelt.code) AS fate
FROM spelt
LEFT JOIN names ON names.code = spelt.code
