-- Ready-made cells, row by row: counting adds rows with equal coordinates.
CREATE TABLE cells AS
SELECT
    nullif(tidy(CAST({patient} AS VARCHAR)), '') AS patient,
    {columns},
    try_cast({value} AS DOUBLE) AS value
FROM {relation}
