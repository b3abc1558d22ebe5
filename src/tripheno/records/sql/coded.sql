-- Codes rolled up into their groups; a code that its grouping does not know is dropped, and counted.
SELECT
    placed.* REPLACE (
        CASE WHEN grouped.code IS NULL THEN placed.code ELSE grouped.grouped END AS code,
        CASE WHEN grouped.code IS NULL THEN placed.label ELSE grouped.label END AS label,
        CASE WHEN grouped.ordinal > 1 THEN 0 ELSE placed.part END AS part,
        CASE
            WHEN placed.fate IS NULL AND grouped.code IS NULL AND rolled.mode IS NOT NULL
                THEN 'no group'
            ELSE placed.fate
        END AS fate
    )
FROM placed
LEFT JOIN (SELECT DISTINCT mode FROM grouped_modes) AS rolled ON rolled.mode = placed.mode
LEFT JOIN grouped ON grouped.mode = placed.mode AND grouped.code = placed.code
