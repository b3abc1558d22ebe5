-- What is odd about the ids of patients or visits, as counts: how many there are, how many are no
-- whole numbers above 0, how many equal another but for leading zeros and capitals, how many of several people.
SELECT
    count(*),
    count(*) FILTER (NOT regexp_full_match(key, '0*[1-9]\d*')),
    CASE
        WHEN bool_or(starts_with(key, '0') OR lower(key) <> key)
            THEN count(*) - count(DISTINCT ltrim(lower(key), '0'))
        ELSE 0
    END,
    count(*) FILTER (people > 1)
FROM ({keys})
