-- The hospital's visits, numbered without gaps. The map stays at the hospital. Visits in the order of
-- their numbers have the same place whether their ids are numbers or texts.
CREATE OR REPLACE TABLE windows AS
SELECT
    row_number() OVER (
        ORDER BY patients.patient, try_cast(held.visit AS BIGINT), held.visit
    ) - 1 AS "window",
    patients.patient,
    patients.key,
    held.visit
FROM (
    SELECT DISTINCT patient, visit FROM coded WHERE fate IS NULL AND site IS NOT DISTINCT FROM $site
) AS held
JOIN patients ON patients.key = held.patient
