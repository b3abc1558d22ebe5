-- The hospital's visits, numbered without gaps. The map stays at the hospital.
CREATE OR REPLACE TABLE windows AS
SELECT row_number() OVER (ORDER BY length(patient), patient, visit) - 1 AS "window", patient, visit
FROM (
    SELECT DISTINCT patient, visit FROM coded
    WHERE fate IS NULL AND site IS NOT DISTINCT FROM $site AND $rule = 'visit'
)
