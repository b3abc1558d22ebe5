-- A FROSTT tensor: numbers with blanks between them, perhaps a remark. 01 is the position 1.
SELECT CASE WHEN len(held) = {width} THEN held ELSE error('Expected Number of Columns') END AS held
FROM (
    SELECT list_transform(
        regexp_split_to_array(trim(regexp_replace(line, '#.*|[\t\r]', ' ', 'g')), ' +'),
        lambda n: coalesce(nullif(ltrim(n, '0'), ''), left(n, 1))
    ) AS held
    FROM read_csv(
        {file}, auto_detect = false, header = false, compression = {compression}, delim = '\x1f',
        quote = '', escape = '', columns = {{'line': 'VARCHAR'}}
    )
)
WHERE held <> ['']
