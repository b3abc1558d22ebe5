-- What became of the rows of every table.
SELECT source, mode, fate, visit_note, note, count(*) AS row_count
FROM coded
WHERE part = 1 AND site IS NOT DISTINCT FROM $site
GROUP BY ALL
ORDER BY ALL
