-- One mode of the cells: as many windows as the cell counts.
SELECT
    NULL::VARCHAR AS site,
    patient,
    'cell ' || cell || ' ' || nth AS visit,
    NULL::TIMESTAMP AS starts,
    NULL::TIMESTAMP AS ends,
    code,
    NULL::VARCHAR AS label,
    NULL::VARCHAR AS visit_note,
    NULL::VARCHAR AS note,
    CASE WHEN nth = 0 THEN 1 ELSE 0 END AS part,
    NULL::VARCHAR AS fate
FROM (
    SELECT patient, trim({column}) AS code, rowid AS cell, unnest(range(CAST(value AS BIGINT))) AS nth
    FROM cells
)
