-- A laboratory result that is abnormal: by its interpretation, else by the range written beside it.
WITH told AS (
    SELECT
        stale,
        json,
        list_concat(
            field(json, '$.interpretation[*].coding[*].code'),
            field(json, '$.interpretation.coding[*].code')
        ) AS interpretations,
        list_has_any(
            interpretations, ['A', 'AA', 'H', 'HH', 'HU', 'L', 'LL', 'LU', 'POS', 'DET']
        ) AS abnormal,
        try_cast(
            coalesce(field(json, '$.valueQuantity.value'), field(json, '$.valueInteger')) AS DOUBLE
        ) AS value,
        try_cast(field(json, '$.referenceRange[0].low.value') AS DOUBLE) AS low,
        try_cast(field(json, '$.referenceRange[0].high.value') AS DOUBLE) AS high,
        json_array_length(json, '$.referenceRange') > 1 AS several,
        coalesce(
            field(json, '$.valueQuantity.code') <> coalesce(
                field(json, '$.referenceRange[0].low.code'), field(json, '$.referenceRange[0].high.code')
            ),
            field(json, '$.valueQuantity.unit') <> coalesce(
                field(json, '$.referenceRange[0].low.unit'), field(json, '$.referenceRange[0].high.unit')
            ),
            false
        ) AS other_unit
    FROM src.observation
),
ruled AS (
    SELECT
        *,
        CASE
            WHEN abnormal OR list_has_any(interpretations, ['N', 'NEG', 'ND']) THEN 'interpretation'
            WHEN value IS NOT NULL AND (low IS NOT NULL OR high IS NOT NULL) THEN 'range'
        END AS rule
    FROM told
)
SELECT
    stale,
    field(json, '$.status') AS status,
    patient_of(json) AS patient,
    encounter_of(json) AS encounter,
    wall_clock(coalesce(
        field(json, '$.effectiveDateTime'),
        field(json, '$.effectivePeriod.start'),
        field(json, '$.effectiveInstant'),
        field(json, '$.issued')
    )) AS starts,
    NULL::TIMESTAMP AS ends,
    piece(json, '$.code') AS concept,
    concept_label(concept) AS label,
    NULL::VARCHAR AS own_code,
    rule AS note,
    1 AS part,
    CASE
        WHEN json_exists(json, '$.category')
            AND NOT list_contains(field(json, '$.category[*].coding[*].code'), 'laboratory')
            THEN 'not laboratory'
        WHEN rule IS NULL THEN 'no rule for abnormal'
        WHEN rule = 'interpretation' AND abnormal THEN NULL
        WHEN rule = 'range' AND several THEN 'several ranges'
        WHEN rule = 'range' AND other_unit THEN 'range in another unit'
        WHEN rule = 'range' AND low >= high THEN 'the range is empty'
        WHEN rule = 'range' AND (value < low OR value > high) THEN NULL
        ELSE 'not abnormal'
    END AS fate
FROM ruled
