-- Every resource of the export, typed by itself: lines, arrays, and the entries of Bundles.
WITH given AS (
    {readers}
),
entries AS (
    SELECT unnest(CAST(json_extract(json, '$.entry') AS JSON[])) AS entry
    FROM given
    WHERE json_extract_string(json, '$.resourceType') = 'Bundle'
),
resources AS (
    SELECT json, NULL AS address FROM given
    WHERE json_extract_string(json, '$.resourceType') IS DISTINCT FROM 'Bundle'
    UNION ALL
    SELECT json_extract(entry, '$.resource'), json_extract_string(entry, '$.fullUrl') FROM entries
)
SELECT
    json_extract_string(json, '$.resourceType') AS kind,
    coalesce(json_extract_string(json, '$.id'), ref_id(address)) AS id,
    json_extract_string(json, '$.meta.lastUpdated') AS updated,
    CASE WHEN list_contains($needed, json_extract_string(json, '$.resourceType')) THEN json END AS json
FROM resources
