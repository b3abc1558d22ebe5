-- The events in reading order.
SELECT patient, "window", time, code FROM events ORDER BY patient, "window", time, code
