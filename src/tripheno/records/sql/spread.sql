-- Orders over their interval: a copy of the order in every later window that it covers and in which
-- the patient has something else. (Windows in which nothing else happened give no cell.)
WITH points AS (
    SELECT DISTINCT site, patient, bucket FROM placed WHERE mode <> 'medication' AND fate IS NULL
)
SELECT DISTINCT
    orders.source,
    orders.mode,
    orders.site,
    orders.patient,
    points.bucket AS bucket,
    make_timestamp(points.bucket * CAST($width AS BIGINT)) AS starts,
    orders.code,
    orders.label,
    0 AS part
FROM placed AS orders
JOIN points
    ON points.patient = orders.patient
    AND points.site IS NOT DISTINCT FROM orders.site
    AND points.bucket > orders.bucket
    AND points.bucket <= CAST(floor(epoch_us(orders.ends) / CAST($width AS DOUBLE)) AS BIGINT)
WHERE orders.mode = 'medication' AND orders.fate IS NULL
