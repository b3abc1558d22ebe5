-- The events in reading order, with their labels.
SELECT events.patient, events."window", events.time, events.mode, events.code, labels.label
FROM events
LEFT JOIN labels ON labels.mode = events.mode AND labels.code = events.code
ORDER BY events.patient, events."window", events.time, events.mode, events.code
