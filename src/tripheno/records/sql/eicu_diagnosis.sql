-- A diagnosis. Its field holds ICD-9 and ICD-10 codes side by side ("401.9, I10"): the first ICD-9
-- code is taken, or the first code where there is none of ICD-9. What a field means is worked out
-- once, however many rows have it.
WITH split AS (
    SELECT
        *,
        list_filter(
            pieces(upper(icd9code)),
            lambda code: is_icd9(code) OR is_icd10(code) OR regexp_full_match(code, '\d\d\.\d\d?')
        ) AS codes
    FROM (SELECT DISTINCT icd9code FROM src.diagnosis)
),
chosen AS (
    SELECT
        * EXCLUDE (codes),
        list_filter(codes, lambda code: NOT is_icd10(code) OR is_icd9(code))[1] AS ninth,
        codes[1] AS first_code
    FROM split
),
meanings AS (
    SELECT
        icd9code,
        coalesce(icd9(ninth), icd10(first_code)) AS code,
        CASE
            WHEN regexp_full_match(ninth, '\d\d\.\d\d?') THEN 'ICD-9 procedure code'
            WHEN ninth IS NOT NULL THEN 'ICD-9 code'
            WHEN first_code IS NOT NULL THEN 'ICD-10 code'
        END AS note,
        CASE WHEN first_code IS NULL AND tidy(icd9code) <> '' THEN 'not an ICD code' END AS fate
    FROM chosen
)
SELECT
    CASE $by WHEN 'hospitalid' THEN stays.hospitalid WHEN 'region' THEN stays.region END AS site,
    stays.uniquepid AS patient,
    given.patientunitstayid AS visit,
    after(stays.unit_admission, given.diagnosisoffset) AS starts,
    NULL::TIMESTAMP AS ends,
    meanings.code,
    replace(given.diagnosisstring, '|', ' | ') AS label,
    NULL::VARCHAR AS visit_note,
    meanings.note,
    1 AS part,
    CASE WHEN stays.patientunitstayid IS NULL THEN 'stay not in patient table' ELSE meanings.fate END AS fate
FROM src.diagnosis AS given
JOIN meanings ON meanings.icd9code IS NOT DISTINCT FROM given.icd9code
LEFT JOIN stays ON stays.patientunitstayid = given.patientunitstayid
