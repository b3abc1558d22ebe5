-- Ready-made cells, row by row: counting adds rows with equal coordinates.
CREATE TABLE cells AS
SELECT
    CASE WHEN lower(tidy(person)) NOT IN ({nobody}) AND is_word(person) THEN whole_id(tidy(person)) END
        AS patient,
    * EXCLUDE (person)
FROM (
    SELECT
        CAST({patient} AS VARCHAR) AS person,
        {columns},
        CASE WHEN NOT contains(CAST({value} AS VARCHAR), '_') THEN try_cast({value} AS DOUBLE) END AS value
    FROM {relation}
)
