-- Ready-made cells, row by row: counting adds rows with equal coordinates.
CREATE TABLE cells AS
SELECT
    nullif(tidy(CAST({patient} AS VARCHAR)), '') AS patient,
    {columns},
    CASE WHEN NOT contains(CAST({value} AS VARCHAR), '_') THEN try_cast({value} AS DOUBLE) END AS value
FROM {relation}
