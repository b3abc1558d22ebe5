-- Spellings that every source shares.

-- The wall clock of a written time. An offset (…-04:00, …Z) is dropped, so that the calendar day is
-- the one the ward saw; when the hospital's zone is known, it is converted into that zone instead.
CREATE MACRO wall_clock(written) AS CASE
    WHEN length(written) <= 19 THEN try_cast(written AS TIMESTAMP)
    WHEN getvariable('timezone') IS NOT NULL AND regexp_matches(written, '(Z|[+-]\d\d:?\d\d)$')
        THEN try_cast(written AS TIMESTAMPTZ) AT TIME ZONE getvariable('timezone')
    ELSE try_cast(regexp_replace(written, '(Z|[+-]\d\d:?\d\d)$', '') AS TIMESTAMP)
END;

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
