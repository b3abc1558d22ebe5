-- Runs on the server: the columns of the tables in a schema, or in the schemas on the search path.
-- Materialised views do not stand in the information schema.
SELECT schema_name, table_name, column_name, data_type
FROM (
    SELECT
        table_schema::text AS schema_name, table_name::text AS table_name, column_name::text AS column_name,
        data_type::text AS data_type, ordinal_position::int AS place
    FROM information_schema.columns
    UNION ALL
    SELECT
        space.nspname::text, held.relname::text, part.attname::text,
        CASE WHEN part.attndims > 0 THEN 'ARRAY' ELSE format_type(part.atttypid, NULL) END,
        part.attnum::int
    FROM pg_class AS held
    JOIN pg_namespace AS space ON space.oid = held.relnamespace
    JOIN pg_attribute AS part ON part.attrelid = held.oid AND part.attnum > 0 AND NOT part.attisdropped
    WHERE held.relkind = 'm' AND has_table_privilege(held.oid, 'SELECT')
) AS listed
WHERE schema_name = $1::text OR ($1::text IS NULL AND schema_name = ANY (current_schemas(false)))
ORDER BY array_position(current_schemas(false)::text[], schema_name), table_name, place
