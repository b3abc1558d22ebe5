-- Every row that was read, with its window and its fate.
CREATE TABLE placed (
    source VARCHAR, mode VARCHAR, site VARCHAR, patient VARCHAR, visit VARCHAR,
    starts TIMESTAMP, ends TIMESTAMP, bucket BIGINT, code VARCHAR, label VARCHAR,
    visit_note VARCHAR, note VARCHAR, part INTEGER, fate VARCHAR
);
