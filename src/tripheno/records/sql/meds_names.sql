WITH listed AS (
    SELECT code, min({label}) AS label, min({parent}) AS parent FROM {reader} GROUP BY code
)
SELECT listed.code, coalesce(listed.label, above.label) AS label
FROM listed
LEFT JOIN listed AS above ON above.code = listed.parent
