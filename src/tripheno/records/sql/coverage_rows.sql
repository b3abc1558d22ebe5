-- What became of the rows of every table; later parts of a row are its further codes.
SELECT source, mode, part = 1 AS whole, fate, visit_note, note, time_note, count(*) AS row_count
FROM coded
WHERE (part = 1 OR (part > 1 AND fate IS NOT NULL)) AND site IS NOT DISTINCT FROM $site
GROUP BY ALL
ORDER BY ALL
