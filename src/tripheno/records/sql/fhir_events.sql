-- What all resources have in common. The resource gives one row for each of its parts: whose, when, which
-- concept, and what decided.
WITH told AS (
    {resource}
),
spelt_out AS (
    SELECT
        *,
        shared_coding(codings_of(concept)) AS coding,
        coalesce(own_code, concept_code(concept, $drug_names, $strip_strength)) AS code
    FROM told
)
SELECT
    NULL::VARCHAR AS site,
    spelt_out.patient,
    CASE WHEN $encounters_known THEN encounters.stay ELSE encounter END AS visit,
    starts,
    ends,
    code,
    coalesce(label, CASE WHEN $named AND NOT contains(code, ':') THEN trim(coding.code) END) AS label,
    CASE
        WHEN encounter IS NULL THEN 'none'
        WHEN $encounters_known AND encounters.id IS NULL THEN 'dangling'
    END AS visit_note,
    coalesce(note, coding_note(concept), status_note(status)) AS note,
    CAST(part AS INTEGER) AS part,
    CASE WHEN stale THEN 'older version or copy' ELSE coalesce(undone(status), fate) END AS fate
FROM spelt_out
LEFT JOIN encounters  -- another patient's is none
    ON encounters.id = spelt_out.encounter
    AND coalesce(encounters.patient = spelt_out.patient, true)
