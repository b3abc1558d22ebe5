-- Every resource of the export, typed by itself: lines, arrays, the entries of Bundles and of the
-- Bundles within them.
WITH written AS (
    {readers}
),
given AS (
    SELECT json FROM written WHERE json_type(json) <> 'ARRAY'
    UNION ALL
    SELECT unnest(CAST(json AS JSON[])) FROM written WHERE json_type(json) = 'ARRAY'
),
entries AS (
    SELECT unnest(CAST(json_extract(json, '$.entry') AS JSON[])) AS entry
    FROM given
    WHERE json_extract_string(json, '$.resourceType') = 'Bundle'
),
inner_entries AS (
    SELECT unnest(CAST(json_extract(entry, '$.resource.entry') AS JSON[])) AS entry
    FROM entries
    WHERE json_extract_string(entry, '$.resource.resourceType') = 'Bundle'
),
resources AS (
    SELECT json, NULL AS address FROM given
    WHERE json_extract_string(json, '$.resourceType') IS DISTINCT FROM 'Bundle'
    UNION ALL
    SELECT json_extract(entry, '$.resource'), json_extract_string(entry, '$.fullUrl')
    FROM (FROM entries UNION ALL FROM inner_entries)
)
SELECT
    json_extract_string(json, '$.resourceType') AS kind,
    coalesce(json_extract_string(json, '$.id'), ref_id(address)) AS id,
    try_cast(json_extract_string(json, '$.meta.lastUpdated') AS TIMESTAMPTZ) AS updated,
    nullif(regexp_extract(json_extract_string(json, '$.subject.reference'), '^(https?:.+)/\w+/[^/]+$', 1), '')
        AS server,
    CASE WHEN list_contains($needed, json_extract_string(json, '$.resourceType')) THEN json END AS json
FROM resources
WHERE json_type(json, '$.transactionTime') IS NULL  -- what a bulk export says of itself
AND NOT (
    json_extract_string(json, '$.resourceType') IS NOT DISTINCT FROM 'Bundle'
    AND json_type(json, '$.entry[0].resource.entry') IS NULL
)
UNION ALL
SELECT  -- the pages of a search
    CASE WHEN list_contains(field(json, '$.link[*].relation'), 'next') THEN 'page' ELSE 'last page' END,
    NULL, NULL, NULL, NULL
FROM given
WHERE field(json, '$.resourceType') = 'Bundle' AND field(json, '$.type') = 'searchset'
