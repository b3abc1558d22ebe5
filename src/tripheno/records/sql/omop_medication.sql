-- An exposure to a drug, as its standard ingredients.
SELECT
    NULL::VARCHAR AS site,
    drugs.person_id AS patient,
    CASE
        WHEN $visits_known THEN visits.visit_occurrence_id ELSE drugs.visit_occurrence_id
    END AS visit,
    moment(drugs.drug_exposure_start_datetime, drugs.drug_exposure_start_date) AS starts,
    moment(drugs.drug_exposure_end_datetime, drugs.drug_exposure_end_date) AS ends,
    coalesce(ingredients.ingredient, drugs.drug_concept_id) AS code,
    coalesce(ingredients.label, concept.concept_name) AS label,
    CASE
        WHEN drugs.visit_occurrence_id IS NULL THEN 'none'
        WHEN $visits_known AND visits.visit_occurrence_id IS NULL THEN 'dangling'
    END AS visit_note,
    CASE WHEN ingredients.ingredient IS NULL THEN 'own concept' ELSE 'ingredient' END AS note,
    CAST(coalesce(ingredients.part, 1) AS INTEGER) AS part,
    concept_fate(drugs.drug_concept_id) AS fate
FROM src.drug_exposure AS drugs
LEFT JOIN src.visit_occurrence AS visits
    ON $visits_known
    AND visits.visit_occurrence_id = drugs.visit_occurrence_id
    AND visits.person_id = drugs.person_id
LEFT JOIN ingredients ON ingredients.drug = drugs.drug_concept_id
LEFT JOIN names AS concept ON concept.concept_id = drugs.drug_concept_id
