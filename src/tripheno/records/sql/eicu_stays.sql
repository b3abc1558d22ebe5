-- Unit stays with a zero of time. eICU has no dates, only minutes from the unit's admission and the
-- clock of the hospital's. Each hospital stay of a patient gets its own decade: clock times and the
-- distances within a stay are right, and events of different stays never meet.
CREATE TABLE stays AS
SELECT
    patient.patientunitstayid,
    patient.uniquepid,
    patient.hospitalid,
    coalesce(hospital.region, 'region-not-recorded') AS region,
    make_timestamp(CAST(2000 + 10 * (dense_rank() OVER (
        PARTITION BY patient.uniquepid ORDER BY patient.patienthealthsystemstayid
    ) - 1) AS BIGINT), 1, 1, 0, 0, 0)
        + coalesce(try_cast(patient.hospitaladmittime24 AS INTERVAL), INTERVAL 0 SECOND)
        - to_seconds(60 * coalesce(patient.hospitaladmitoffset, 0)) AS unit_admission
FROM src.patient AS patient
LEFT JOIN src.hospital AS hospital ON hospital.hospitalid = patient.hospitalid
