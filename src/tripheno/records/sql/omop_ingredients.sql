-- Drug → standard RxNorm ingredients; several for a combination.
CREATE TABLE ingredients AS
SELECT
    ancestry.descendant_concept_id AS drug,
    ancestry.ancestor_concept_id AS ingredient,
    min(concept.concept_name) AS label,
    row_number() OVER (
        PARTITION BY ancestry.descendant_concept_id ORDER BY ancestry.ancestor_concept_id
    ) AS part
FROM src.concept_ancestor AS ancestry
JOIN src.concept AS concept
    ON concept.concept_id = ancestry.ancestor_concept_id
    AND concept.concept_class_id = 'Ingredient'
    AND concept.standard_concept = 'S'
    AND concept.vocabulary_id IN ('RxNorm', 'RxNorm Extension')
GROUP BY ancestry.descendant_concept_id, ancestry.ancestor_concept_id
