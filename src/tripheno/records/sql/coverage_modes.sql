-- What every mode holds.
SELECT
    codes.mode,
    CAST(sum(held.event_count) AS BIGINT) AS event_count,
    (
        SELECT count(DISTINCT patient) FROM events JOIN codes AS own ON own.number = events.code
        WHERE own.mode = codes.mode
    ) AS patients,
    count(*) AS codes,
    count(*) FILTER (codes.label IS NULL) AS unnamed,
    any_value(used.row_count) AS row_count
FROM codes
JOIN (SELECT code, count(*) AS event_count FROM events GROUP BY code) AS held
    ON held.code = codes.number
JOIN (
    SELECT mode, count(*) AS row_count FROM coded
    WHERE fate IS NULL AND site IS NOT DISTINCT FROM $site
    GROUP BY mode
) AS used ON used.mode = codes.mode
GROUP BY codes.mode
ORDER BY codes.mode
