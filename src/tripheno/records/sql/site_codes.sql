-- The hospital's codes, numbered, each with its commonest label.
CREATE OR REPLACE TABLE codes AS
SELECT
    CAST(row_number() OVER (ORDER BY mode, code) - 1 AS INTEGER) AS number,
    mode,
    code,
    first(label ORDER BY uses DESC, label) FILTER (trim(label) <> '') AS label
FROM (
    SELECT mode, code, label, count(*) AS uses FROM coded
    WHERE fate IS NULL AND site IS NOT DISTINCT FROM $site
    GROUP BY ALL
)
GROUP BY mode, code
