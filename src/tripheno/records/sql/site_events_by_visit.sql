-- The events by visit: one row for a code that a patient has in a visit at a moment, however often
-- it is written there.
CREATE OR REPLACE TABLE events AS
SELECT DISTINCT windows.patient, windows."window", coded.starts AS time, codes.number AS code
FROM coded
JOIN windows ON windows.key = coded.patient AND windows.visit = coded.visit
JOIN codes ON codes.mode = coded.mode AND codes.code = coded.code
WHERE coded.fate IS NULL AND coded.site IS NOT DISTINCT FROM $site
