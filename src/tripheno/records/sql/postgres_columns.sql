-- Runs on the server: the columns of the tables in a schema, or in the schemas on the search path.
SELECT table_schema::text, table_name::text, column_name::text, data_type::text
FROM information_schema.columns
WHERE table_schema = $1::text
    OR ($1::text IS NULL AND table_schema = ANY (current_schemas(false)))
ORDER BY
    array_position(current_schemas(false)::text[], table_schema::text), table_name, ordinal_position
