-- The events: one row for a code that a patient has in a window at a moment, however often it is
-- written there.
CREATE OR REPLACE TABLE events AS
SELECT DISTINCT
    patients.patient,
    CASE
        WHEN $rule = 'visit' THEN windows."window"
        WHEN $rule = 'person' THEN 0
        ELSE coded.bucket
    END AS "window",
    coded.starts AS time,
    codes.number AS code
FROM coded
JOIN patients ON patients.key = coded.patient
JOIN codes ON codes.mode = coded.mode AND codes.code = coded.code
LEFT JOIN windows ON windows.patient = coded.patient AND windows.visit = coded.visit
WHERE coded.fate IS NULL AND coded.site IS NOT DISTINCT FROM $site
