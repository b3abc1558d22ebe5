-- One name per concept, however often the vocabulary lists it.
CREATE TABLE names AS
SELECT concept_id, min(concept_name) AS concept_name FROM src.concept GROUP BY concept_id
