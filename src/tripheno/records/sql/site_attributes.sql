-- Birth year (or age at first admission), sex and death of the hospital's patients, one row each, for subgroup tables at home.
SELECT
    patients.patient,
    CAST(min(given.birth_year) AS INTEGER) AS birth_year,
    CAST(min(given.age) AS INTEGER) AS age,
    CASE upper(left(min(given.sex), 1)) WHEN 'F' THEN 'female' WHEN 'M' THEN 'male' ELSE 'unknown' END AS sex,
    bool_or(given.died) AS died
FROM patients
LEFT JOIN (
    {attributes}
    UNION ALL BY NAME SELECT NULL::INTEGER AS age WHERE FALSE
) AS given ON given.patient = patients.spelt
GROUP BY patients.patient
ORDER BY patients.patient
