-- Encounters that took place, each with the hospital stay it is part of: partOf is followed upwards
-- as far as the export knows the parents.
CREATE TABLE encounters AS
WITH RECURSIVE known AS (
    SELECT id, min(ref_id(field(json, '$.partOf.reference'))) AS parent
    FROM src.encounter
    WHERE NOT stale AND coalesce(field(json, '$.status'), '') <> 'entered-in-error'
    GROUP BY id
),
climb AS (
    SELECT id, id AS stay, parent, 0 AS steps FROM known
    UNION ALL
    SELECT climb.id, up.id, up.parent, climb.steps + 1
    FROM climb
    JOIN known AS up ON up.id = climb.parent
    WHERE climb.steps < 16
)
SELECT id, max_by(stay, steps) AS stay FROM climb GROUP BY id
