-- Encounters that took place, each with the hospital stay it is part of: partOf is followed upwards
-- as far as the export knows the parents.
CREATE TABLE encounters AS
WITH RECURSIVE known AS (
    SELECT
        id,
        min(ref_id(field(json, '$.partOf.reference'))) AS parent,
        min(patient_of(json)) AS patient
    FROM src.encounter
    WHERE NOT stale AND coalesce(lower(field(json, '$.status')), '') NOT IN ('entered-in-error', 'cancelled')
    GROUP BY id
),
climb AS (
    SELECT id, id AS stay, patient, parent, 0 AS steps FROM known
    UNION ALL
    SELECT climb.id, up.id, climb.patient, up.parent, climb.steps + 1
    FROM climb
    JOIN known AS up ON up.id = climb.parent
    WHERE climb.steps < 16
)
SELECT
    climb.id,
    min(climb.patient) AS patient,
    -- parents in a circle are one stay
    CASE WHEN max(steps) < 16 THEN max_by(stay, steps) ELSE min(stay) END AS stay,
    max(steps) = 16 AS in_circle,
    bool_or(climb.parent IS NOT NULL AND parents.id IS NULL) AS orphan
FROM climb
LEFT JOIN known AS parents ON parents.id = climb.parent
GROUP BY climb.id
