-- What every mode holds.
SELECT
    events.mode,
    count(*) AS event_count,
    count(DISTINCT patient) AS patients,
    count(DISTINCT code) AS codes,
    any_value(used.row_count) AS row_count
FROM events
JOIN (
    SELECT mode, count(*) AS row_count FROM coded
    WHERE fate IS NULL AND site IS NOT DISTINCT FROM $site
    GROUP BY mode
) AS used ON used.mode = events.mode
GROUP BY events.mode
ORDER BY events.mode
