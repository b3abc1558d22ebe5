-- A measurement that is abnormal by the first rule that applies: the result's own concept, the
-- range written beside it, the site's reference ranges.
WITH ruled AS (
    SELECT
        events.*,
        concept.concept_name,
        CASE
            WHEN events.value_as_concept_id
                IN ('4328749', '4267416', '4135493', '9191', '4069590', '9189') THEN 'value concept'
            WHEN events.value_as_number IS NOT NULL
                AND (events.range_low IS NOT NULL OR events.range_high IS NOT NULL) THEN 'range'
            WHEN events.value_as_number IS NOT NULL AND ranges.test IS NOT NULL THEN 'site range'
        END AS rule,
        ranges.low,
        ranges.high
    FROM src.measurement AS events
    LEFT JOIN names AS concept ON concept.concept_id = events.measurement_concept_id
    LEFT JOIN ranges ON ranges.test = events.measurement_concept_id
)
SELECT
    NULL::VARCHAR AS site,
    ruled.person_id AS patient,
    CASE
        WHEN $visits_known THEN visits.visit_occurrence_id ELSE ruled.visit_occurrence_id
    END AS visit,
    moment(measurement_datetime, measurement_date) AS starts,
    NULL::TIMESTAMP AS ends,
    measurement_concept_id AS code,
    concept_name AS label,
    CASE
        WHEN ruled.visit_occurrence_id IS NULL THEN 'none'
        WHEN $visits_known AND visits.visit_occurrence_id IS NULL THEN 'dangling'
    END AS visit_note,
    rule AS note,
    1 AS part,
    CASE
        WHEN concept_fate(measurement_concept_id) IS NOT NULL THEN concept_fate(measurement_concept_id)
        WHEN coalesce(rule, '') <> 'value concept' AND isinf(value_as_number)
            THEN 'the result is no number'
        WHEN rule IS NULL THEN 'no rule for abnormal'
        -- high, low, abnormal, positive; the other two are normal and negative
        WHEN rule = 'value concept'
            AND value_as_concept_id IN ('4328749', '4267416', '4135493', '9191') THEN NULL
        WHEN rule = 'range' AND (isinf(range_low) OR isinf(range_high)) THEN 'the range is no number'
        WHEN rule = 'range' AND range_low >= range_high THEN 'the range is empty'
        WHEN rule = 'range' AND (value_as_number < range_low OR value_as_number > range_high)
            THEN NULL
        WHEN rule = 'site range' AND (value_as_number < low OR value_as_number > high) THEN NULL
        ELSE 'not abnormal'
    END AS fate
FROM ruled
LEFT JOIN src.visit_occurrence AS visits
    ON $visits_known
    AND visits.visit_occurrence_id = ruled.visit_occurrence_id
    AND visits.person_id = ruled.person_id
