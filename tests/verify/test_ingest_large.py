"""Tables larger than the memory that reading may take."""

import json
import subprocess
import sys

import duckdb
import pytest

ROWS = 10_000_000
PROGRAM = """
import json, resource, sys, time
from pathlib import Path
from tripheno.records.events import CountingRule
from tripheno.records.ingest import ingest
from tripheno.records.mimic import Mimic
from tripheno.records.source import IngestSettings

folder = Path(sys.argv[1])
begin = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
started = time.perf_counter()
settings = IngestSettings(rule=CountingRule(("medication", "lab"), "visit"), memory="500MB")
result = ingest(Mimic(), str(folder / "tables"), folder / "site", settings)
print(json.dumps({
    "before_mb": begin / 1024,
    "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    "seconds": time.perf_counter() - started,
    "read": {table.mode: table.read for table in result.sites[0].tables},
    "used": {table.mode: table.used for table in result.sites[0].tables},
}))
"""


@pytest.mark.verify
def test_ten_million_rows_are_read_in_bounded_memory(tmp_path):
    tables = tmp_path / "tables"
    tables.mkdir()
    with duckdb.connect() as db:
        db.execute(
            f"COPY (SELECT range AS row_id, range // 250 AS subject_id, range // 100 AS hadm_id, "
            f"50800 + range * 7919 % 700 AS itemid, "
            f"TIMESTAMP '2150-01-01' + to_minutes(range % 500000) AS charttime, "
            f"'14.4' AS value, CASE WHEN range % 3 = 0 THEN 'abnormal' END AS flag "
            f"FROM range({ROWS})) TO '{tables / 'LABEVENTS.csv'}' (HEADER)"
        )
        db.execute(
            f"COPY (SELECT range AS row_id, range // 5 AS subject_id, range // 2 AS hadm_id, "
            f"DATE '2150-01-01' + CAST(range % 300 AS INTEGER) AS startdate, NULL AS enddate, "
            f"'Drug ' || range * 104729 % 3000 AS drug "
            f"FROM range({ROWS // 50})) TO '{tables / 'PRESCRIPTIONS.csv'}' (HEADER)"
        )
    command = [sys.executable, "-c", PROGRAM, str(tmp_path)]
    output = subprocess.run(command, check=True, capture_output=True, text=True, timeout=600)
    assert output.stdout.startswith("{"), output.stdout[:200]  # nothing else goes to stdout
    facts = json.loads(output.stdout)
    assert facts["read"] == {"lab": ROWS, "medication": ROWS // 50}
    assert facts["used"]["lab"] == (ROWS + 2) // 3
    assert facts["peak_mb"] < 1_200, facts  # the limit, Python and Arrow; the table has 560 MB
