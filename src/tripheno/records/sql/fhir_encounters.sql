-- Encounters that took place.
CREATE TABLE encounters AS
SELECT DISTINCT field(json, '$.id') AS id FROM src.encounter
WHERE coalesce(field(json, '$.status'), '') <> 'entered-in-error'
