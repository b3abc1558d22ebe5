-- Spellings that every source shares.

-- A text as people see it: line ends, tabs and hard blanks are blanks; byte-order marks, NUL, soft
-- hyphens, marks of direction and characters without width are nothing; accents are composed.
CREATE MACRO visible(written) AS CASE
    WHEN regexp_full_match(written, '[ -~]*') THEN written  -- nearly all: looked at once
    ELSE nfc_normalize(regexp_replace(
        regexp_replace(written, '[\pZ\t-\r]', ' ', 'g'),
        '[\x{feff}\x{200b}-\x{200f}\x{202a}-\x{202e}\x{2060}\x{2066}-\x{2069}\x{ad}\x00]', '', 'g'
    ))
END;

-- A text within the quotation marks or the formula (="…") that a blank before them made part of it.
CREATE MACRO unquoted(clean) AS CASE
    WHEN contains(clean, '"') THEN regexp_replace(clean, '^ *=?"([^"]*)" *$', '\1')
    ELSE clean
END;

CREATE MACRO tidy(written) AS trim(visible(written));

-- A tidy id as text. Spreadsheets write 17 as 17.0, 17,00, ="17" or '17; 1.7E+08 is a rounded number.
CREATE MACRO whole_id(clean) AS CASE
    WHEN regexp_full_match(clean, '\d+([.,]\d+)?[eE]\+\d+|\d+[.,]\d+[eE]\d+')
        THEN error('ids are rounded numbers')
    WHEN regexp_matches(clean, '[.,=''"]')
        THEN regexp_replace(clean, '^(?:="|''|")?(\d+)(?:\.0*|,00?)?"?$', '\1')
    ELSE clean
END;

-- Whether an id has a letter or a figure: a row of signs only rules off a table.
CREATE MACRO is_word(clean) AS regexp_matches(clean, '[\pL\pN]');

-- What is written in the commonest way, which needs no further look; NULL for everything else.
CREATE MACRO plain_id(written) AS
    CASE WHEN written NOT GLOB '*[!0-9]*' AND written <> '' THEN written END;

CREATE MACRO plain_number(written) AS CASE  -- 007 is a word
    WHEN CAST(try_cast(written AS BIGINT) AS VARCHAR) = written THEN try_cast(written AS BIGINT)
END;

CREATE MACRO plain_value(written) AS
    CASE WHEN regexp_full_match(written, '-?\d+(\.\d+)?') THEN try_cast(written AS DOUBLE) END;

CREATE MACRO plain_time(written) AS CASE
    WHEN strlen(written) = 10 AND right(written, 1) BETWEEN '0' AND '9' THEN try_cast(written AS TIMESTAMP)
    WHEN regexp_full_match(written, '\d{4}-\d\d-\d\d([ T]\d\d:\d\d(:\d\d)?)?')
        THEN try_cast(written AS TIMESTAMP)
END;

-- An id as a number where that loses nothing.
CREATE MACRO whole_number(id) AS CASE
    WHEN id IS NULL OR plain_number(id) IS NOT NULL THEN plain_number(id)
    ELSE error('an id is no whole number')
END;

-- Times as SAS, SQL Server, Oracle and HL7 write them, in the spelling that the forms below are in: no
-- fraction of a second, one blank, 03-JAN-2020 for every order of day, month's name and year.
CREATE MACRO respelt(clean) AS regexp_replace(regexp_replace(regexp_replace(regexp_replace(regexp_replace(
    regexp_replace(clean, '\s+', ' ', 'g'),
    '(:\d\d:\d\d|^\d{14})(?:[.,]\d+|:\d{3})', '\1'),
    '^(\d{1,2})[ .-]*([A-Za-z]{3})(?:uary|ruary|ch|il|e|y|ust|t|tember|ober|ember)?[ .,-]*(\d{4})(?:[ :T]|$)', '\1-\2-\3 '),
    '^([A-Za-z]{3})(?:uary|ruary|ch|il|e|y|ust|t|tember|ober|ember)?[ .]+(\d{1,2}),? +(\d{4})', '\2-\1-\3'),
    '^(\d{4})(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)([+-]\d{4})$', '\1-\2-\3 \4:\5:\6\7'),
    ' ?([AaPp])\.?[Mm]\.?$', ' \1M');

-- A time in one of the forms that can mean one thing only; 03/04/2020 needs the order to be said.
CREATE MACRO in_order(clean, day_first, month_first) AS CASE getvariable('date_order')
    WHEN 'dmy' THEN try_strptime(clean, day_first)
    WHEN 'mdy' THEN try_strptime(clean, month_first)
END;

CREATE MACRO written_time(clean) AS CASE
    WHEN regexp_matches(clean, ' [AaPp]M$') THEN coalesce(
        try_strptime(upper(clean), ['%Y-%m-%d %I:%M %p', '%Y-%m-%d %I:%M:%S %p', '%d-%b-%Y %I:%M %p', '%d-%b-%Y %I:%M:%S %p']),
        in_order(
            replace(upper(clean), '/', '-'),
            ['%d-%m-%Y %I:%M %p', '%d-%m-%Y %I:%M:%S %p'], ['%m-%d-%Y %I:%M %p', '%m-%d-%Y %I:%M:%S %p']
        )
    )
    WHEN regexp_full_match(clean, '(19|20|21|22)\d{6}(\d{4}(\d\d)?)?')
        THEN try_strptime(clean, ['%Y%m%d', '%Y%m%d%H%M', '%Y%m%d%H%M%S'])
    WHEN regexp_matches(clean, '^\d{1,2}(\.\d{1,2}\.|-[A-Za-z]{3}-)\d{4}') THEN try_strptime(
        trim(clean),
        ['%d.%m.%Y', '%d.%m.%Y %H:%M', '%d.%m.%Y %H:%M:%S', '%d-%b-%Y', '%d-%b-%Y %H:%M', '%d-%b-%Y %H:%M:%S']
    )
    WHEN regexp_matches(clean, '^\d{1,2}[/-]\d{1,2}[/-]\d{4}') THEN in_order(
        replace(clean, '/', '-'),
        ['%d-%m-%Y', '%d-%m-%Y %H:%M', '%d-%m-%Y %H:%M:%S'], ['%m-%d-%Y', '%m-%d-%Y %H:%M', '%m-%d-%Y %H:%M:%S']
    )
    ELSE try_cast(clean AS TIMESTAMP)
END;

-- The wall clock of a tidy time. An offset (…-04:00, …Z) is dropped, so that the calendar day is
-- the one the ward saw; when the hospital's zone is known, it is converted into that zone instead.
-- What cannot be read is minus infinity: it is counted apart from what is missing. 24:00 is 00:00 of
-- the next day, as in ISO 8601.
CREATE MACRO without_offset(clean) AS
    regexp_replace(clean, '(:\d\d(?:\.\d+)?) ?(?:Z|z|[+-]\d\d(?::?\d\d)?)$', '\1');

CREATE MACRO in_zone(clean) AS regexp_matches(
    clean, ':\d\d(\.\d+)? ?(Z|[+-]\d\d(:?\d\d)?|[A-Z]{3,5}|[A-Z][a-z]+/[A-Za-z_/]+)$');

CREATE MACRO clock(clean) AS CASE
    WHEN clean IS NULL OR clean = '' THEN NULL
    WHEN getvariable('timezone') IS NOT NULL AND in_zone(respelt(clean)) THEN coalesce(
        try_cast(respelt(clean) AS TIMESTAMPTZ) AT TIME ZONE getvariable('timezone'),
        CAST('-infinity' AS TIMESTAMP)
    )
    ELSE coalesce(
        CASE WHEN right(clean, 1) NOT IN ('M', 'm', '.') THEN try_cast(without_offset(clean) AS TIMESTAMP) END,
        written_time(without_offset(respelt(clean))),
        CAST('-infinity' AS TIMESTAMP)
    )
END;

-- The same of a time as it was written. A value in [brackets] given to a lambda is worked out once.
CREATE MACRO wall_clock(written) AS list_transform([tidy(written)], lambda clean: clock(clean))[1];

-- Whether a time is one at all: systems write 1900 or 9999 where they know none.
CREATE MACRO is_moment(starts) AS
    starts > TIMESTAMP '1901-01-01' AND starts < TIMESTAMP '9000-01-01';

-- The better of two times: one that was read before one that was not.
CREATE MACRO moment(exact, rough) AS
    CASE WHEN isfinite(exact) THEN exact ELSE coalesce(rough, exact) END;

-- A drug's name as a code: trimmed and case-folded, unless the raw name was asked for.
CREATE MACRO without_strength(name) AS coalesce(nullif(trim(regexp_replace(regexp_replace(
    name,
    '[(]?\b\d[\d.,]*\s*(%|(mcg|mg|gm|g|ml|l|units?|meq|mmol|iu)\b)(\s*/\s*[\d.,]*\s*(mcg|mg|g|ml|l|hr|h|dose)\b)?[)]?',
    '', 'g'), '\s+', ' ', 'g')), ''), name);

CREATE MACRO drug_code(name, names, strip) AS CASE
    WHEN names = 'raw' THEN name
    WHEN strip THEN without_strength(lower(trim(name)))
    ELSE lower(trim(name))
END;

-- ICD codes in one spelling for all hospitals: the system's name, the code with its point.
CREATE MACRO pointed(code, digits) AS CASE
    WHEN contains(code, '.') OR length(code) <= digits THEN code
    ELSE left(code, digits) || '.' || substr(code, digits + 1)
END;

CREATE MACRO icd9(code) AS 'ICD9CM:' || pointed(
    upper(trim(code)), CASE WHEN trim(code)[1] IN ('E', 'e') THEN 4 ELSE 3 END);

CREATE MACRO icd9_procedure(code) AS 'ICD9Proc:' || pointed(trim(code), 2);

CREATE MACRO icd10(code) AS 'ICD10CM:' || pointed(upper(trim(code)), 3);

-- Why an OMOP concept is none: 0 says that nothing fits, and ids are whole numbers above 0.
CREATE MACRO concept_fate(id) AS CASE
    WHEN coalesce(id, '0') = '0' THEN 'concept 0'
    WHEN id < '1' OR id >= ':' THEN 'not a concept id'
END;

-- The forms of ICD codes: what has another form is not a code of that system.
CREATE MACRO is_icd9(code) AS regexp_full_match(
    upper(trim(code)), '\d{3}(\.?\d{1,2}|\.)?|V\d\d(\.?\d{1,2}|\.)?|E\d{3}(\.?\d|\.)?');

CREATE MACRO is_icd10(code) AS regexp_full_match(
    upper(trim(code)), '[A-Z]\d[0-9A-Z](\.?[0-9A-Z]{1,4}|\.)?');

CREATE MACRO is_icd9_procedure(code) AS regexp_full_match(trim(code), '\d\d(\.?\d{1,2})?');

CREATE MACRO is_icd10_procedure(code) AS regexp_full_match(upper(trim(code)), '[0-9A-HJ-NP-Z]{7}');

-- A code whose point became a comma: 401,9 is not the codes 401 and 9.
CREATE MACRO without_decimal_comma(written) AS CASE
    WHEN contains(written, ',')
        THEN regexp_replace(written, '\b([0-9A-Z]\d\w\d?),(\d{1,2})($|[,;|/\s])', '\1.\2\3', 'g')
    ELSE written
END;

CREATE MACRO split_field(written) AS list_filter(
    regexp_split_to_array(without_decimal_comma(written), '[,;|/\s]+'), lambda p: p <> ''
);

-- The codes of one field: several may stand there, parted by comma, semicolon, bar, slash or blank.
CREATE MACRO pieces(written) AS CASE
    WHEN len(split_field(written)) > 0 THEN split_field(written) ELSE [NULL]
END;

-- The version as the table writes it (10, ICD-10, ICD10CM), or the one its columns are named for.
CREATE MACRO icd_version_of(written, named) AS CASE
    WHEN CAST(named AS VARCHAR) IS NOT NULL THEN CAST(named AS VARCHAR)
    ELSE regexp_replace(upper(tidy(written)), '^ICD[- ]?(9|10)([- ]?CM|[- ]?PCS)?$', '\1')
END;

CREATE MACRO icd_diagnosis(code, version) AS CASE
    WHEN version = '10' AND is_icd10(code) THEN icd10(rtrim(code, '.'))
    WHEN version = '9' AND is_icd9(code) THEN icd9(rtrim(code, '.'))
END;

CREATE MACRO valid_first(codes, version) AS list_concat(
    list_filter(codes, lambda c: coalesce(icd_diagnosis(c, version) IS NOT NULL, false)),
    list_filter(codes, lambda c: coalesce(icd_diagnosis(c, version) IS NULL, true))
);

CREATE MACRO icd_procedure(code, version) AS CASE
    WHEN version = '10' AND is_icd10_procedure(code) THEN 'ICD10PCS:' || upper(trim(code))
    WHEN version = '9' AND is_icd9_procedure(code) THEN icd9_procedure(code)
END;

CREATE MACRO icd_fate(code, version, spelt) AS CASE
    WHEN code IS NULL OR spelt IS NOT NULL THEN NULL
    WHEN version IS NULL THEN 'no ICD version'
    WHEN version NOT IN ('9', '10') THEN 'unknown ICD version'
    ELSE 'not an ICD-' || version || ' code'
END;

-- Whether a laboratory's flag says abnormal; NULL when it says something nobody has told us.
CREATE MACRO flag_of(written) AS CASE
    WHEN lower(tidy(written)) IN ('abnormal', 'abn') THEN true
    WHEN lower(tidy(coalesce(written, ''))) IN ('', 'normal', 'n', 'delta') THEN false
END;

CREATE MACRO hicl_code(id) AS nullif(regexp_extract(id, '^0*([1-9]\d*)$', 1), '');

-- A moment counted in minutes from another; minutes that cannot be read are minus infinity.
CREATE MACRO after(begins, minutes) AS CASE
    WHEN isfinite(minutes) THEN begins + to_seconds(60 * minutes)
    WHEN minutes IS NOT NULL THEN CAST('-infinity' AS TIMESTAMP)
END;

-- Whether a field that says yes or no says yes; NULL when it says something else.
CREATE MACRO says_yes(written) AS CASE
    WHEN lower(tidy(coalesce(written, ''))) IN ('yes', 'y', 'true', 't', '1', '1.0') THEN true
    WHEN lower(tidy(coalesce(written, ''))) IN ('', 'no', 'n', 'false', 'f', '0', '0.0') THEN false
END
