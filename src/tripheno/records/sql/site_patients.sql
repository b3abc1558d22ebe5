-- The hospital's patients, numbered without gaps. The map stays at the hospital.
CREATE OR REPLACE TABLE patients AS
SELECT row_number() OVER (ORDER BY length(spelt), spelt) - 1 AS patient, key, spelt
FROM (
    SELECT key, CAST(key AS VARCHAR) AS spelt
    FROM (
        SELECT DISTINCT patient AS key FROM coded
        WHERE fate IS NULL AND site IS NOT DISTINCT FROM $site
    )
)
