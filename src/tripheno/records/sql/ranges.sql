-- Reference ranges by code, and by label where a label means one range only.
CREATE TABLE ranges AS
WITH given AS (
    SELECT
        lower(trim({code})) AS code,
        lower(trim({label})) AS label,
        try_cast({low} AS DOUBLE) AS low,
        try_cast({high} AS DOUBLE) AS high
    FROM {relation}
),
by_code AS (
    SELECT DISTINCT code AS test, low, high FROM given WHERE code IS NOT NULL
),
by_label AS (
    SELECT label AS test, any_value(low) AS low, any_value(high) AS high
    FROM given
    WHERE label IS NOT NULL AND label NOT IN (SELECT test FROM by_code)
    GROUP BY label
    HAVING count(DISTINCT (low, high)) = 1
)
SELECT * FROM by_code WHERE low IS NOT NULL OR high IS NOT NULL
UNION ALL
SELECT * FROM by_label WHERE low IS NOT NULL OR high IS NOT NULL
