-- Ready-made cells; equal coordinates are added.
CREATE TABLE cells AS
SELECT * EXCLUDE (value), sum(value) AS value
FROM (
    SELECT
        nullif(trim(CAST({patient} AS VARCHAR)), '') AS patient,
        {columns},
        try_cast({value} AS DOUBLE) AS value
    FROM {relation}
)
GROUP BY ALL
