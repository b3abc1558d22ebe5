-- A table of the hospital's own. A record with several codes gives several rows.
WITH given AS (
    SELECT
        trim({site}) AS site,
        {patient} AS patient,
        {visit} AS visit,
        {starts} AS starts,
        {ends} AS ends,
        {label} AS label,
        $filtered AND NOT list_contains($kinds, coalesce(trim({kind}), '')) AS another_kind,
        [{given}] AS fields
    FROM src.{view}
),
split AS (
    SELECT
        * EXCLUDE (fields),
        list_filter(
            CASE
                WHEN CAST($icd AS VARCHAR) IS NOT NULL AND CAST($separator AS VARCHAR) IS NULL
                    THEN valid_first(
                        flatten(list_transform(fields, lambda f: pieces(f))), CAST($icd AS VARCHAR)
                    )
                WHEN CAST($separator AS VARCHAR) IS NULL THEN fields
                ELSE flatten(list_transform(fields, lambda f: string_split(f, $separator)))
            END,
            lambda c: trim(coalesce(c, '')) <> '' AND NOT list_contains($missing, trim(c))
        ) AS codes
    FROM given
),
rows AS (
    SELECT
        * EXCLUDE (codes),
        unnest(CASE WHEN len(codes) = 0 THEN [NULL] ELSE codes END) AS code,
        CAST(unnest(range(1, greatest(len(codes), 1) + 1)) AS INTEGER) AS part
    FROM split
)
SELECT
    CAST(CASE WHEN CAST($by AS VARCHAR) IS NOT NULL THEN site END AS VARCHAR) AS site,
    CAST(CASE WHEN NOT list_contains($missing, patient) THEN patient END AS VARCHAR) AS patient,
    CAST(CASE WHEN NOT list_contains($missing, visit) THEN visit END AS VARCHAR) AS visit,
    CAST(starts AS TIMESTAMP) AS starts,
    CAST(ends AS TIMESTAMP) AS ends,
    CASE
        WHEN CAST($icd AS VARCHAR) IS NOT NULL THEN icd_diagnosis(code, CAST($icd AS VARCHAR))
        WHEN CAST($system AS VARCHAR) IS NOT NULL THEN CAST($system AS VARCHAR) || ':' || trim(code)
        WHEN $named THEN drug_code(code, $drug_names, $strip_strength)
        ELSE trim(code)
    END AS code,
    coalesce(
        CAST(CASE WHEN part = 1 THEN label END AS VARCHAR), CASE WHEN $named THEN trim(code) END
    ) AS label,
    CASE WHEN visit IS NULL OR list_contains($missing, visit) THEN 'none' END AS visit_note,
    NULL::VARCHAR AS note,
    part,
    CASE
        WHEN another_kind THEN 'another kind'
        WHEN $flagged AND code IS NULL THEN 'nothing given'
        WHEN CAST($icd AS VARCHAR) IS NOT NULL
            THEN icd_fate(code, CAST($icd AS VARCHAR), icd_diagnosis(code, CAST($icd AS VARCHAR)))
    END AS fate
FROM rows
