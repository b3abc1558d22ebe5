"""OMOP in a warehouse: ``python -m tripheno.records.warehouse ENGINE SCHEMA FOLDER``.

Prints SQL that the warehouse's own engine runs, where the data are: of every table the columns that
an ingest reads, of the vocabularies the concepts that the records use, sorted and as Parquet.
`tripheno ingest omop FOLDER` makes the same site of it as of the whole tables. The queries are
written in what all engines have in common; only how a result is kept differs.
"""

from __future__ import annotations

import sys

from tripheno.errors import SettingsError
from tripheno.records.omop import ANCESTOR, CDM_SOURCE, CONCEPT, DEATH, NEEDS, PERSON, VISITS
from tripheno.records.tables import TableNeed

KEPT = {
    "duckdb": "COPY (\n{query}\n) TO '{folder}/{table}.parquet' (FORMAT parquet);\n",
    "spark": "INSERT OVERWRITE DIRECTORY '{folder}/{table}' USING parquet\n{query};\n",
}
TABLES = (*NEEDS.values(), VISITS, CONCEPT, ANCESTOR, PERSON, DEATH, CDM_SOURCE)
OPTIONAL = {"person": "death_datetime"}  # which CDM 5.3 and 5.4 do not have
_DRUGS = "descendant_concept_id IN (SELECT drug_concept_id FROM {schema}.drug_exposure)"
_ROWS = [f"{need.columns[1].names[0]} FROM {{schema}}.{need.names[0]}" for need in NEEDS.values()]
_ROWS.append(f"ancestor_concept_id FROM {{schema}}.concept_ancestor WHERE {_DRUGS}")
ONLY = {
    "concept": " OR ".join(f"concept_id IN (SELECT {one})" for one in _ROWS),
    "concept_ancestor": _DRUGS,
}


def statements(engine: str, schema: str, folder: str) -> list[str]:
    """One statement for each table, to be run in the warehouse."""
    if engine not in KEPT:
        known = " and ".join(KEPT)
        raise SettingsError(f"'{engine}' is no engine this is written for", fix=f"known: {known}")
    found = []
    for need in TABLES:
        table, query = need.names[0], _query(need, schema)
        found.append(KEPT[engine].format(query=query, folder=folder, table=table))
    return found


def _query(need: TableNeed, schema: str) -> str:
    """The columns of a table that an ingest reads, patient by patient."""
    table = need.names[0]
    columns = [column.names[0] for column in need.columns]
    columns = [column for column in columns if column != OPTIONAL.get(table)]
    where = f"\nWHERE {ONLY[table].format(schema=schema)}" if table in ONLY else ""
    first = "person_id" if "person_id" in columns else columns[0]
    return f"SELECT {', '.join(columns)}\nFROM {schema}.{table}{where}\nORDER BY {first}"


if __name__ == "__main__":
    sys.stdout.write("\n".join(statements(*sys.argv[1:4])))
