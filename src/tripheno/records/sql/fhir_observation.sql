-- A laboratory result that is abnormal: by its interpretation, else by the range written beside it.
WITH told AS (
    SELECT
        json,
        json_extract_string(json, '$.interpretation[*].coding[*].code') AS interpretations,
        try_cast(coalesce(json_extract_string(json, '$.valueQuantity.value'), json_extract_string(json, '$.valueInteger')) AS DOUBLE) AS value,
        try_cast(json_extract_string(json, '$.referenceRange[0].low.value') AS DOUBLE) AS low,
        try_cast(json_extract_string(json, '$.referenceRange[0].high.value') AS DOUBLE) AS high
    FROM src.observation
),
ruled AS (
    SELECT
        *,
        CASE
            WHEN list_has_any(interpretations, ['A', 'AA', 'H', 'HH', 'HU', 'L', 'LL', 'LU', 'POS', 'DET'])
                OR list_has_any(interpretations, ['N', 'NEG', 'ND']) THEN 'interpretation'
            WHEN value IS NOT NULL AND (low IS NOT NULL OR high IS NOT NULL) THEN 'range'
        END AS rule
    FROM told
)
SELECT
    NULL::VARCHAR AS site,
    ref_id(json_extract_string(json, '$.subject.reference')) AS patient,
    CASE
        WHEN $encounters_known THEN encounters.id ELSE ref_id(json_extract_string(json, '$.encounter.reference'))
    END AS visit,
    wall_clock(coalesce(
        json_extract_string(json, '$.effectiveDateTime'), json_extract_string(json, '$.effectivePeriod.start'), json_extract_string(json, '$.effectiveInstant'),
        json_extract_string(json, '$.issued')
    )) AS starts,
    NULL::TIMESTAMP AS ends,
    concept_code(json_extract(json, '$.code'), 'folded', false) AS code,
    concept_label(json_extract(json, '$.code')) AS label,
    CASE
        WHEN json_extract_string(json, '$.encounter.reference') IS NULL THEN 'none'
        WHEN $encounters_known AND encounters.id IS NULL THEN 'dangling'
    END AS visit_note,
    rule AS note,
    1 AS part,
    CASE
        WHEN undone(json_extract_string(json, '$.status')) IS NOT NULL THEN undone(json_extract_string(json, '$.status'))
        WHEN json_exists(json, '$.category')
            AND NOT list_contains(json_extract_string(json, '$.category[*].coding[*].code'), 'laboratory') THEN 'not laboratory'
        WHEN rule IS NULL THEN 'no rule for abnormal'
        WHEN rule = 'interpretation'
            AND list_has_any(interpretations, ['A', 'AA', 'H', 'HH', 'HU', 'L', 'LL', 'LU', 'POS', 'DET'])
            THEN NULL
        WHEN rule = 'range' AND (value < low OR value > high) THEN NULL
        ELSE 'not abnormal'
    END AS fate
FROM ruled
LEFT JOIN encounters ON encounters.id = ref_id(json_extract_string(json, '$.encounter.reference'))
