-- A laboratory result that the laboratory flagged as abnormal. Results without an admission take,
-- when that is asked for, the admission under way at their time (from the emergency room on).
WITH stays AS (
    SELECT
        subject_id,
        hadm_id,
        CASE WHEN isfinite(edregtime) THEN least(edregtime, admittime) ELSE admittime END AS begins,
        dischtime
    FROM src.admissions
    WHERE $infer_visit AND isfinite(admittime)
),
strays AS (
    SELECT DISTINCT subject_id, charttime FROM src.labevents
    WHERE $infer_visit AND hadm_id IS NULL
),
found AS (
    SELECT strays.subject_id, strays.charttime, max_by(stays.hadm_id, stays.begins) AS hadm_id
    FROM strays
    JOIN stays
        ON stays.subject_id = strays.subject_id
        AND strays.charttime BETWEEN stays.begins AND stays.dischtime
    GROUP BY ALL
)
SELECT
    NULL::VARCHAR AS site,
    labs.subject_id AS patient,
    coalesce(labs.hadm_id, found.hadm_id) AS visit,
    labs.charttime AS starts,
    NULL::TIMESTAMP AS ends,
    labs.itemid AS code,
    trim(items.label) AS label,
    CASE
        WHEN labs.hadm_id IS NOT NULL THEN NULL
        WHEN found.hadm_id IS NOT NULL THEN 'inferred'
        ELSE 'none'
    END AS visit_note,
    CASE
        WHEN flag_of(labs.flag) IS NULL THEN
            'unknown flag' || CASE
                WHEN regexp_full_match(tidy(labs.flag), '[A-Za-z*+!]{1,10}') THEN ' ' || tidy(labs.flag)
                ELSE ''
            END
    END AS note,
    1 AS part,
    CASE
        WHEN flag_of(labs.flag) IS NULL THEN 'unknown flag'
        WHEN NOT flag_of(labs.flag) THEN 'not abnormal'
    END AS fate
FROM src.labevents AS labs
LEFT JOIN found
    ON labs.hadm_id IS NULL
    AND found.subject_id = labs.subject_id
    AND found.charttime = labs.charttime
LEFT JOIN (SELECT itemid, min(label) AS label FROM src.d_labitems GROUP BY itemid) AS items
    ON items.itemid = labs.itemid
