"""How fast do EHR tables become a tensor, and in how much memory?

Synthetic tables (half drugs, half conditions, by visit) are ingested and counted: OMOP's with whole
numbers in Parquet, the same in CSV, and MIMIC's with text in CSV. Beside each a plain DuckDB SQL
joins the same two tables by visit and counts the same cells. Each runs in a process of its own, so
that peak memory is its own; processor time is what is compared.

    python -m benchmarks.ingest [--events 20000000] [--kind mimic]
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import duckdb

EVENTS = 20_000_000
EVENTS_PER_VISIT = 10
VISITS_PER_PATIENT = 8
DRUGS, CONDITIONS = 3_229, 1_200


def make_tables(folder: Path, events: int) -> None:
    """Tables whose codes are skewed like real ones: a few are everywhere, most are rare."""
    half, visits = events // 2, max(events // EVENTS_PER_VISIT, 1)
    db = duckdb.connect()
    db.execute("SELECT setseed(0.5)")
    for table, concept, date, codes in (
        ("drug_exposure", "drug_concept_id", "drug_exposure_start_date", DRUGS),
        ("condition_occurrence", "condition_concept_id", "condition_start_date", CONDITIONS),
    ):
        db.execute(
            f"COPY (SELECT v AS visit_occurrence_id, v // {VISITS_PER_PATIENT} AS person_id, "
            f"1 + CAST(floor({codes} * pow(random(), 2.5)) AS INTEGER) AS {concept}, "
            f"DATE '2020-01-01' + CAST(v % 1000 AS INTEGER) AS {date} "
            f"FROM (SELECT CAST(floor(random() * {visits}) AS BIGINT) AS v FROM range({half}))) "
            f"TO '{folder / table}.parquet' (FORMAT parquet)"
        )
    db.execute(
        f"COPY (SELECT range AS visit_occurrence_id, range // {VISITS_PER_PATIENT} AS person_id "
        f"FROM range({visits})) TO '{folder / 'visit_occurrence'}.parquet' (FORMAT parquet)"
    )
    db.close()


def write_csv(parquet: Path, folder: Path) -> None:
    """The same tables in CSV."""
    with duckdb.connect() as db:
        for path in parquet.glob("*.parquet"):
            db.execute(f"COPY (FROM '{path}') TO '{folder / path.stem}.csv' (HEADER)")


def write_texts(parquet: Path, folder: Path) -> None:
    """The same records as MIMIC writes them, in CSV."""
    db = duckdb.connect()
    for table, columns, written in (
        ("drug_exposure", "drug_exposure_start_date AS startdate, NULL AS enddate, "
         "'Drug ' || drug_concept_id AS drug", "PRESCRIPTIONS"),
        ("condition_occurrence", "lpad(CAST(70 * condition_concept_id AS VARCHAR), 5, '0') "
         "AS icd9_code", "DIAGNOSES_ICD"),
    ):  # fmt: skip
        db.execute(
            f"COPY (SELECT person_id AS subject_id, visit_occurrence_id AS hadm_id, {columns} "
            f"FROM '{parquet / table}.parquet') TO '{folder / written}.csv' (HEADER)"
        )
    db.close()


def run_tripheno(folder: Path, kind: str) -> dict[str, float]:
    """Ingest, then count: the whole way from tables to tensor."""
    from tripheno.cli.ingest import source_named, tensor_facts
    from tripheno.records.events import CountingRule
    from tripheno.records.ingest import ingest
    from tripheno.records.source import IngestSettings

    rule = CountingRule(("medication", "diagnosis"), "visit")
    started = time.perf_counter()
    ingest(
        source_named(kind.partition("-")[0]),
        str(folder),
        folder / "site",
        IngestSettings(rule=rule),
    )
    ingested, cpu = time.perf_counter(), time.process_time()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    facts = tensor_facts(folder / "site" / "events.parquet", rule)
    return {
        "ingest_seconds": ingested - started,
        "ingest_peak_mb": peak,
        "ingest_cpu_seconds": cpu,
        "tensor_seconds": time.perf_counter() - ingested,
        "nonzeros": facts.nonzeros,
    }


MAKERS = {"omop-csv": write_csv, "mimic": write_texts}
JOINS = {
    "omop-csv": "person_id, drug_concept_id, condition_concept_id, "
    "count(DISTINCT visit_occurrence_id) FROM '{}/drug_exposure.csv' "
    "JOIN '{}/condition_occurrence.csv' USING (person_id, visit_occurrence_id)",
    "omop": "person_id, drug_concept_id, condition_concept_id, "
    "count(DISTINCT visit_occurrence_id) FROM '{}/drug_exposure.parquet' "
    "JOIN '{}/condition_occurrence.parquet' USING (person_id, visit_occurrence_id)",
    "mimic": "subject_id, lower(trim(drug)), icd9_code, count(DISTINCT hadm_id) "
    "FROM read_csv('{}/PRESCRIPTIONS.csv') AS drugs "
    "JOIN read_csv('{}/DIAGNOSES_ICD.csv', types = {{'icd9_code': 'VARCHAR'}}) AS conditions "
    "USING (subject_id, hadm_id)",
}


KINDS = ("omop", "omop-csv", "mimic")


def run_duckdb(folder: Path, kind: str) -> dict[str, float]:
    """The same cells by one SQL statement."""
    started = time.perf_counter()
    db = duckdb.connect()
    db.execute(f"SET temp_directory = '{folder / 'spill'}'")
    join = JOINS[kind].format(folder, folder)
    counted = db.execute(f"SELECT count(*) FROM (SELECT {join} GROUP BY ALL)").fetchall()
    return {"seconds": time.perf_counter() - started, "nonzeros": counted[0][0]}


def measure(events: int, kinds: Sequence[str]) -> dict[str, dict[str, dict[str, float]]]:
    """Both ways on every kind of tables, each in its own process."""
    results: dict[str, dict[str, dict[str, float]]] = {}
    with tempfile.TemporaryDirectory(prefix="tripheno-bench-") as name:
        held = Path(name) / "omop"
        held.mkdir()
        make_tables(held, events)
        for kind in kinds:
            folder = Path(name) / kind
            if kind != "omop":
                folder.mkdir()
                MAKERS[kind](held, folder)
            for way in ("tripheno", "duckdb"):
                command = [sys.executable, "-m", "benchmarks.ingest", "--way", way, "--kind", kind]
                done = subprocess.run(
                    [*command, "--folder", folder], check=True, capture_output=True, text=True
                )
                results.setdefault(kind, {})[way] = json.loads(done.stdout.splitlines()[-1])
    return results


def report(events: int, results: dict[str, dict[str, dict[str, float]]]) -> str:
    """One paragraph for each kind of tables, for `make bench`."""
    return "\n".join(f"{kind}: {_paragraph(events, found)}" for kind, found in results.items())


def _paragraph(events: int, results: dict[str, dict[str, float]]) -> str:
    ours, sql = results["tripheno"], results["duckdb"]
    whole = ours["ingest_seconds"] + ours["tensor_seconds"]
    same = "equal" if ours["nonzeros"] == sql["nonzeros"] else "DIFFERENT"
    return (
        f"ingest {events:,} events by visit: {ours['ingest_seconds']:.1f} s "
        f"({events / ours['ingest_seconds']:,.0f} events/s, "
        f"peak {ours['ingest_peak_mb']:,.0f} MB), tensor {ours['tensor_seconds']:.1f} s, "
        f"together {whole:.1f} s (CPU {ours['cpu_seconds']:.1f} s), "
        f"peak {ours['peak_mb']:,.0f} MB; "
        f"plain DuckDB SQL {sql['seconds']:.1f} s (CPU {sql['cpu_seconds']:.1f} s), "
        f"peak {sql['peak_mb']:,.0f} MB; "
        f"{int(ours['nonzeros']):,} nonzeros, {same}; "
        f"ingest takes {ours['ingest_cpu_seconds'] / sql['cpu_seconds']:.2f}× the CPU of SQL"
    )


def main() -> None:
    """Measure, or run one way inside its own process."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--events", type=int, default=EVENTS)
    parser.add_argument("--way", choices=("tripheno", "duckdb"))
    parser.add_argument("--kind", choices=tuple(JOINS))
    parser.add_argument("--folder", type=Path)
    given = parser.parse_args()
    if given.way is None:
        print(report(given.events, measure(given.events, (given.kind,) if given.kind else KINDS)))
        return
    result = (run_tripheno if given.way == "tripheno" else run_duckdb)(given.folder, given.kind)
    result["cpu_seconds"] = time.process_time()
    result["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps(result))


if __name__ == "__main__":
    main()
