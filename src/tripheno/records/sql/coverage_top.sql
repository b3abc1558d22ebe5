-- The codes that most patients have.
SELECT codes.mode, codes.code, codes.label, held.patients
FROM (SELECT code, count(DISTINCT patient) AS patients FROM events GROUP BY code) AS held
JOIN codes ON codes.number = held.code
QUALIFY row_number() OVER (PARTITION BY codes.mode ORDER BY held.patients DESC, codes.code) <= $top
ORDER BY codes.mode, held.patients DESC, codes.code
