-- A diagnosis. Its field holds ICD-9 and ICD-10 codes side by side ("401.9, I10"): the first ICD-9
-- code is taken, or the first code where there is none of ICD-9.
WITH split AS (
    SELECT
        *,
        list_filter(
            pieces(upper(icd9code)),
            lambda code: is_icd9(code) OR is_icd10(code) OR regexp_full_match(code, '\d\d\.\d\d?')
        ) AS codes
    FROM src.diagnosis
),
chosen AS (
    SELECT
        * EXCLUDE (codes),
        list_filter(codes, lambda code: NOT is_icd10(code) OR is_icd9(code))[1] AS ninth,
        codes[1] AS first_code
    FROM split
)
SELECT
    CASE $by WHEN 'hospitalid' THEN stays.hospitalid WHEN 'region' THEN stays.region END AS site,
    stays.uniquepid AS patient,
    chosen.patientunitstayid AS visit,
    after(stays.unit_admission, chosen.diagnosisoffset) AS starts,
    NULL::TIMESTAMP AS ends,
    coalesce(icd9(chosen.ninth), icd10(chosen.first_code)) AS code,
    replace(chosen.diagnosisstring, '|', ' | ') AS label,
    NULL::VARCHAR AS visit_note,
    CASE
        WHEN regexp_full_match(ninth, '\d\d\.\d\d?') THEN 'ICD-9 procedure code'
        WHEN ninth IS NOT NULL THEN 'ICD-9 code'
        WHEN first_code IS NOT NULL THEN 'ICD-10 code'
    END AS note,
    1 AS part,
    CASE
        WHEN stays.uniquepid IS NULL THEN 'stay not in patient table'
        WHEN first_code IS NULL AND tidy(icd9code) <> '' THEN 'not an ICD code'
    END AS fate
FROM chosen
LEFT JOIN stays ON stays.patientunitstayid = chosen.patientunitstayid
