-- One label a code: the commonest spelling.
CREATE OR REPLACE TABLE labels AS
SELECT mode, code, first(label ORDER BY uses DESC, label) AS label
FROM (
    SELECT mode, code, label, count(*) AS uses FROM coded
    WHERE fate IS NULL AND site IS NOT DISTINCT FROM $site AND trim(label) <> ''
    GROUP BY ALL
)
GROUP BY ALL
