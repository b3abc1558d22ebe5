-- One extract's rows, each put into its window or dropped for a reason.
-- {key}: the type of the ids of patients and visits, text unless the tables have whole numbers.
-- $width: calendar window in microseconds; $by_date: a record without visit takes its day as visit.
WITH extract AS (
    {extract}
),
judged AS (
    SELECT
        * REPLACE (
            CASE WHEN is_moment(starts) THEN starts END AS starts,
            CASE WHEN isfinite(ends) THEN ends END AS ends
        ),
        CASE
            WHEN isinf(starts) THEN 'cannot be read'
            WHEN NOT is_moment(starts) THEN 'is a placeholder (1900, 9999)'
            WHEN isinf(ends) THEN 'the end cannot be read'
        END AS time_note,
        visit IS NULL AND $needs_visit AND $by_date AND coalesce(is_moment(starts), false) AS by_date
    FROM extract
)
SELECT
    CAST($source AS VARCHAR) AS source,
    CAST($mode AS VARCHAR) AS mode,
    CAST(site AS VARCHAR) AS site,
    CAST(patient AS {key}) AS patient,
    CASE
        WHEN by_date THEN try_cast('day ' || strftime(starts, '%Y-%m-%d') AS {key})
        ELSE CAST(visit AS {key})
    END AS visit,
    CAST(starts AS TIMESTAMP) AS starts,
    CAST(ends AS TIMESTAMP) AS ends,
    CAST(floor(epoch_us(starts) / CAST($width AS DOUBLE)) AS BIGINT) AS bucket,
    CAST(code AS VARCHAR) AS code,
    CAST(label AS VARCHAR) AS label,
    CAST(
        CASE
            WHEN by_date THEN coalesce(visit_note, 'none') || ', day used' ELSE visit_note
        END AS VARCHAR
    ) AS visit_note,
    CAST(note AS VARCHAR) AS note,
    CAST(time_note AS VARCHAR) AS time_note,
    CAST(part AS INTEGER) AS part,
    CAST(CASE
        WHEN fate IS NOT NULL THEN fate
        WHEN patient IS NULL THEN 'no patient'
        WHEN code IS NULL OR trim(code) = '' THEN 'no code'
        WHEN $divided AND site IS NULL THEN 'no hospital'
        WHEN $needs_visit AND visit IS NULL AND NOT by_date THEN 'no visit'
        WHEN $needs_time AND starts IS NULL
            THEN CASE WHEN time_note IS NULL THEN 'no time' ELSE 'time cannot be read' END
        WHEN $interval AND CAST(ends AS DATE) < CAST(starts AS DATE) THEN 'ends before it starts'
    END AS VARCHAR) AS fate
FROM judged
