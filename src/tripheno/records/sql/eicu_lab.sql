-- A laboratory result outside the site's reference range: eICU has no flags of its own.
SELECT
    CASE $by WHEN 'hospitalid' THEN stays.hospitalid WHEN 'region' THEN stays.region END AS site,
    stays.uniquepid AS patient,
    labs.patientunitstayid AS visit,
    after(stays.unit_admission, labs.labresultoffset) AS starts,
    NULL::TIMESTAMP AS ends,
    lower(trim(labs.labname)) AS code,
    trim(labs.labname) AS label,
    NULL::VARCHAR AS visit_note,
    CASE WHEN ranges.test IS NOT NULL AND labs.labresult IS NOT NULL THEN 'site range' END AS note,
    1 AS part,
    CASE
        WHEN stays.patientunitstayid IS NULL THEN 'stay not in patient table'
        WHEN labs.labresult IS NULL THEN 'no number'
        WHEN ranges.test IS NULL THEN 'no rule for abnormal'
        WHEN labs.labresult < ranges.low OR labs.labresult > ranges.high THEN NULL
        ELSE 'not abnormal'
    END AS fate
FROM src.lab AS labs
LEFT JOIN stays ON stays.patientunitstayid = labs.patientunitstayid
LEFT JOIN ranges ON ranges.test = lower(trim(labs.labname))
