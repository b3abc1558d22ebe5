-- A condition or a procedure, as its standard concept.
SELECT
    NULL::VARCHAR AS site,
    events.person_id AS patient,
    CASE
        WHEN $visits_known THEN visits.visit_occurrence_id ELSE events.visit_occurrence_id
    END AS visit,
    moment(events.{starts}_datetime, events.{starts}_date) AS starts,
    NULL::TIMESTAMP AS ends,
    events.{code}_concept_id AS code,
    concept.concept_name AS label,
    CASE
        WHEN events.visit_occurrence_id IS NULL THEN 'none'
        WHEN $visits_known AND visits.visit_occurrence_id IS NULL THEN 'dangling'
    END AS visit_note,
    NULL::VARCHAR AS note,
    1 AS part,
    concept_fate(events.{code}_concept_id) AS fate
FROM src.{code}_occurrence AS events
LEFT JOIN src.visit_occurrence AS visits
    ON $visits_known
    AND visits.visit_occurrence_id = events.visit_occurrence_id
    AND visits.person_id = events.person_id
LEFT JOIN names AS concept ON concept.concept_id = events.{code}_concept_id
