-- The events whose code has one of the mode's prefixes. An event between two stays has no visit.
SELECT
    CASE WHEN CAST($by AS VARCHAR) IS NOT NULL THEN CAST({site} AS VARCHAR) END AS site,
    CAST(events.subject_id AS VARCHAR) AS patient,
    coalesce(
        CAST({visit} AS VARCHAR),
        CASE WHEN events.time <= coalesce(stays.ends, events.time) THEN stays.visit END
    ) AS visit,
    CAST(events.time AS TIMESTAMP) AS starts,
    NULL::TIMESTAMP AS ends,
    CASE
        WHEN len(list_filter($prefixes, lambda p: starts_with(events.code, p))) > 0 THEN events.code
    END AS code,
    coalesce(
        names.label,
        CASE
            WHEN list_contains($nobody, lower(regexp_extract(events.code, '([^/]+)$', 1)))
                THEN 'not named in the records'
            ELSE regexp_extract(events.code, '([^/]+)$', 1)
        END
    ) AS label,
    CASE
        WHEN {visit} IS NOT NULL THEN NULL
        WHEN events.time <= coalesce(stays.ends, events.time) AND stays.visit IS NOT NULL THEN 'inferred'
        ELSE 'none'
    END AS visit_note,
    NULL::VARCHAR AS note,
    1 AS part,
    CASE
        WHEN events.code IS NOT NULL
            AND len(list_filter($prefixes, lambda p: starts_with(events.code, p))) = 0
            THEN 'another kind'
    END AS fate
FROM src.meds AS events
ASOF LEFT JOIN meds_stays AS stays
    ON stays.subject_id = events.subject_id AND events.time >= stays.begins
LEFT JOIN meds_names AS names ON names.code = events.code
