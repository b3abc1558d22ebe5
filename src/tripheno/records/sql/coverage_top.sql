-- The codes that most patients have.
SELECT events.mode, events.code, any_value(labels.label) AS label, count(DISTINCT patient) AS patients
FROM events
LEFT JOIN labels ON labels.mode = events.mode AND labels.code = events.code
GROUP BY events.mode, events.code
QUALIFY row_number() OVER (PARTITION BY events.mode ORDER BY patients DESC, events.code) <= $top
ORDER BY events.mode, patients DESC, events.code
