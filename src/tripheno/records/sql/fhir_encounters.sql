-- Encounters that took place.
CREATE TABLE encounters AS
SELECT DISTINCT json_extract_string(json, '$.id') AS id FROM src.encounter
WHERE coalesce(json_extract_string(json, '$.status'), '') <> 'entered-in-error'
