-- An order of a drug. MIMIC-III knows the day of its start and end, MIMIC-IV the minute.
SELECT
    NULL::VARCHAR AS site,
    subject_id AS patient,
    hadm_id AS visit,
    starttime AS starts,
    stoptime AS ends,
    drug_code(drug, $drug_names, $strip_strength) AS code,
    trim(drug) AS label,
    CASE WHEN hadm_id IS NULL THEN 'none' END AS visit_note,
    NULL::VARCHAR AS note,
    1 AS part,
    NULL::VARCHAR AS fate
FROM src.prescriptions
