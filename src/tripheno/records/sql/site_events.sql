-- The events by calendar window, by person (one window each), or without windows (sliding): one row
-- for a code that a patient has at a moment, however often it is written there.
CREATE OR REPLACE TABLE events AS
SELECT DISTINCT
    patients.patient,
    CASE WHEN $person THEN 0 ELSE coded.bucket END AS "window",
    coded.starts AS time,
    codes.number AS code
FROM coded
JOIN patients ON patients.key = coded.patient
JOIN codes ON codes.mode = coded.mode AND codes.code = coded.code
WHERE coded.fate IS NULL AND coded.site IS NOT DISTINCT FROM $site
