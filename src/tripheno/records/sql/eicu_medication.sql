-- An order that was not cancelled, by its HICL code; the name is its label, and its code where the
-- HICL code is missing, unless only HICL codes were asked for (folded). 0 is no HICL code,
-- nor is anything but a whole number. What no order names is called as the patients' own drugs are.
WITH orders AS (
    SELECT * REPLACE (hicl_code(drughiclseqno) AS drughiclseqno) FROM src.medication
),
brought AS (
    SELECT hicl_code(drughiclseqno) AS code, trim(drugname) AS name, count(*) AS uses
    FROM src.admissiondrug
    WHERE trim(drugname) <> ''
    GROUP BY ALL
),
elsewhere AS (
    SELECT code, first(name ORDER BY uses DESC, name) AS name
    FROM brought
    WHERE code NOT IN (
        SELECT drughiclseqno FROM orders WHERE drughiclseqno IS NOT NULL AND trim(drugname) <> ''
    )
    GROUP BY code
)
SELECT
    CASE $by WHEN 'hospitalid' THEN stays.hospitalid WHEN 'region' THEN stays.region END AS site,
    stays.uniquepid AS patient,
    orders.patientunitstayid AS visit,
    after(stays.unit_admission, orders.drugstartoffset) AS starts,
    after(stays.unit_admission, orders.drugstopoffset) AS ends,
    coalesce(orders.drughiclseqno, CASE WHEN $drug_names <> 'folded' THEN tidy(orders.drugname) END) AS code,
    coalesce(trim(orders.drugname), elsewhere.name) AS label,
    NULL::VARCHAR AS visit_note,
    CASE
        WHEN orders.drughiclseqno IS NOT NULL THEN 'HICL'
        WHEN $drug_names <> 'folded' AND orders.drugname IS NOT NULL THEN 'name'
    END AS note,
    1 AS part,
    CASE
        WHEN stays.patientunitstayid IS NULL THEN 'stay not in patient table'
        WHEN says_yes(orders.drugordercancelled) THEN 'cancelled order'
        WHEN says_yes(orders.drugordercancelled) IS NULL THEN 'unknown flag'
        WHEN orders.drughiclseqno IS NULL AND $drug_names = 'folded' THEN 'no HICL code'
    END AS fate
FROM orders
LEFT JOIN stays ON stays.patientunitstayid = orders.patientunitstayid
LEFT JOIN elsewhere ON elsewhere.code = orders.drughiclseqno
