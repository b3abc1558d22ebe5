-- Stays told by admission and discharge events, when no column names the visit: from an admission to
-- the first discharge after it, or to the next admission where none was written.
CREATE TABLE meds_stays AS
WITH marks AS (
    SELECT
        subject_id,
        time,
        split_part(code, '//', 1) IN $begin AS opens
    FROM src.meds
    WHERE $inferred AND isfinite(time)
        AND split_part(code, '//', 1) IN list_concat($begin, $end)
),
stays AS (
    SELECT
        subject_id,
        time AS begins,
        lead(time) OVER (PARTITION BY subject_id ORDER BY time) AS next_admission
    FROM (SELECT DISTINCT subject_id, time FROM marks WHERE opens)
)
SELECT
    stays.subject_id,
    stays.begins,
    coalesce(min(marks.time), stays.next_admission - INTERVAL 1 MICROSECOND) AS ends,
    strftime(stays.begins, '%Y-%m-%d %H:%M:%S') AS visit
FROM stays
LEFT JOIN marks
    ON marks.subject_id = stays.subject_id
    AND NOT marks.opens
    AND marks.time >= stays.begins
    AND (stays.next_admission IS NULL OR marks.time <= stays.next_admission)
GROUP BY stays.subject_id, stays.begins, stays.next_admission
