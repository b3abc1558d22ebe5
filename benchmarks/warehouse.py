"""OMOP cut down where it lies: ``python -m benchmarks.warehouse DATA [PYTHON]``.

DATA is a folder of OMOP tables. A local Spark, under an interpreter that has pyspark, and DuckDB
run the SQL of `tripheno.records.warehouse` on them; the site that an ingest makes of what they
write must be, byte for byte, the one that it makes of the whole tables.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import duckdb
import pyarrow.parquet as pq

from tripheno.records import warehouse
from tripheno.records.events import CountingRule
from tripheno.records.ingest import ingest
from tripheno.records.omop import OMOP
from tripheno.records.source import IngestSettings

TYPES = {"time": "TIMESTAMP", "text": "VARCHAR", "offset": "DOUBLE"}
IN_SPARK = """
import json, sys, time
from pyspark.sql import SparkSession
folder, statements = json.load(sys.stdin)
spark = (SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
         .config("spark.sql.warehouse.dir", folder + "/spark").getOrCreate())
spark.sparkContext.setLogLevel("ERROR")
spark.sql("CREATE DATABASE cdm")
import os
for name in sorted(os.listdir(folder + "/whole")):
    spark.read.parquet(folder + "/whole/" + name).createOrReplaceTempView("view_now")
    spark.sql("CREATE TABLE cdm." + name.split(".")[0] + " USING parquet AS SELECT * FROM view_now")
begun = time.perf_counter()
for statement in statements:
    spark.sql(statement.rstrip().rstrip(";"))
print(json.dumps([spark.version, time.perf_counter() - begun]))
"""


def whole_tables(data: Path, folder: Path) -> None:
    """Every table of the common data model with its columns; empty where DATA has none."""
    for need in warehouse.TABLES:
        name, source = need.names[0], data / f"{need.names[0]}.parquet"
        held = set(pq.read_schema(source).names) if source.is_file() else set()
        shown = []
        for column in need.columns:
            known, kind = column.names[0], TYPES.get(column.kind.rstrip("?"), "BIGINT")
            if known != warehouse.OPTIONAL.get(name):
                shown.append(f"CAST({known if known in held else 'NULL'} AS {kind}) AS {known}")
        origin = f"FROM '{source}'" if held else "WHERE false"
        query = f"SELECT {', '.join(shown)} {origin}"
        duckdb.execute(f"COPY ({query}) TO '{folder}/{name}.parquet' (FORMAT parquet)")


def events_of(folder: Path) -> tuple[bytes, float]:
    """The event table that an ingest makes, and its seconds."""
    begun, site = time.perf_counter(), folder.with_name(folder.name + "-site")
    rule = CountingRule(("medication", "diagnosis", "procedure"), "visit")
    ingest(OMOP(), str(folder), site, IngestSettings(rule=rule))
    return (site / "events.parquet").read_bytes(), time.perf_counter() - begun


def in_duckdb(folder: Path) -> float:
    """Seconds of the same queries in DuckDB."""
    (folder / "duckdb").mkdir()
    with duckdb.connect() as there:
        there.execute("CREATE SCHEMA cdm")
        for need in warehouse.TABLES:
            name = need.names[0]
            there.execute(f"CREATE VIEW cdm.{name} AS FROM '{folder}/whole/{name}.parquet'")
        begun = time.perf_counter()
        for statement in warehouse.statements("duckdb", "cdm", f"{folder}/duckdb"):
            there.execute(statement)
        return time.perf_counter() - begun


def report(data: Path, python: str = sys.executable) -> str:
    """Seconds of both engines, and whether the events are the same bytes."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "whole").mkdir()
        whole_tables(data, folder / "whole")
        asked = json.dumps([name, warehouse.statements("spark", "cdm", f"{name}/spark-cut")])
        done = subprocess.run(
            [python, "-c", IN_SPARK], input=asked, check=True, capture_output=True, text=True,
            cwd=name,
        )  # fmt: skip
        version, seconds = json.loads(done.stdout.splitlines()[-1])
        runs = {f"Spark {version}": ("spark-cut", seconds), "DuckDB": ("duckdb", in_duckdb(folder))}
        expected, whole = events_of(folder / "whole")
        lines = ["| engine | its queries | ingest of what it wrote | the same events |"]
        lines += ["|---|---:|---:|---|", f"| none: whole tables | – | {whole:.1f} s | – |"]
        for engine, (cut, spent) in runs.items():
            found, took = events_of(folder / cut)
            same = "byte for byte" if found == expected else "**no**"
            lines.append(f"| {engine} | {spent:.1f} s | {took:.1f} s | {same} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(report(Path(sys.argv[1]), *sys.argv[2:3]))
