-- What a medicationReference points to: the medication's concept, or those of a mixture's parts.
CREATE TABLE medications AS
WITH given AS (
    SELECT id, json FROM src.medication WHERE NOT stale
    UNION ALL
    SELECT (field(holder, '$.id')) || '#' || (field(inner_resource, '$.id')), inner_resource
    FROM (
        SELECT json AS holder, unnest(CAST(piece(json, '$.contained') AS JSON[])) AS inner_resource
        FROM (
            SELECT json FROM src.medicationrequest
            UNION ALL
            SELECT json FROM src.medicationadministration
        ) WHERE json_array_length(json, '$.contained') > 0
    )
    WHERE field(inner_resource, '$.resourceType') = 'Medication'
),
coded AS (
    SELECT
        id,
        json,
        CASE WHEN json_exists(json, '$.code') THEN piece(json, '$.code') END AS concept,
        list_filter(
            from_json(piece(json, '$.identifier'), '[{"system":"VARCHAR","value":"VARCHAR"}]'),
            lambda i: ends_with(lower(coalesce(i.system, '')), 'name')
        )[1].value AS name
    FROM given
),
parts AS (
    SELECT
        id,
        unnest(from_json(
            piece(json, '$.ingredient'),
            '[{"itemReference":{"reference":"VARCHAR"},"itemCodeableConcept":"JSON",
               "item":{"concept":"JSON","reference":{"reference":"VARCHAR"}},"isActive":"BOOLEAN"}]'
        )) AS part
    FROM coded
    WHERE concept IS NULL
)
SELECT id, concept, coalesce(concept_label(concept), name) AS label FROM coded WHERE concept IS NOT NULL
UNION ALL
SELECT
    parts.id,
    coalesce(coalesce(parts.part.itemCodeableConcept, parts.part.item.concept), member.concept),
    coalesce(concept_label(coalesce(parts.part.itemCodeableConcept, parts.part.item.concept)), concept_label(member.concept), member.name)
FROM parts
LEFT JOIN coded AS member ON member.id = ref_id(
    coalesce(parts.part.itemReference.reference, parts.part.item.reference.reference))
WHERE coalesce(parts.part.isActive, true) AND coalesce(coalesce(parts.part.itemCodeableConcept, parts.part.item.concept), member.concept) IS NOT NULL;

CREATE TABLE medication_parts AS
SELECT id, concept, label, row_number() OVER (PARTITION BY id ORDER BY CAST(concept AS VARCHAR)) AS part
FROM (SELECT DISTINCT id, concept, label FROM medications);
