"""Without what only Unix has, everything but the engine's commands is imported and works.

An emulation on this system: modules and functions that Windows lacks are taken away, and its way to
lock a file is imitated by byte ranges.
"""

import subprocess
import sys

SYSTEM = """
import fcntl, os, signal, sys, types, warnings
import altair, cryptography, duckdb, jinja2, numba, pyarrow.csv, pyarrow.parquet, rich.console
import scipy.sparse, starlette.applications, typer.testing, uvicorn, vl_convert

def locking(descriptor, kind, size):
    fcntl.lockf(descriptor, fcntl.LOCK_EX | (0 if kind == 1 else fcntl.LOCK_NB), size, 0, 1)

made = types.ModuleType("msvcrt")
made.LK_LOCK, made.LK_NBLCK, made.locking = 1, 2, locking
sys.modules["msvcrt"] = made
for name in ("fcntl", "resource", "pwd", "grp", "termios", "nvflare", "psutil"):
    sys.modules[name] = None
for name in ("pread", "pwrite", "fork", "getuid", "geteuid", "fchmod", "pidfd_open"):
    os.__dict__.pop(name, None)
del signal.SIGKILL
warnings.filterwarnings("error", category=EncodingWarning, module="tripheno")
"""
EVERYTHING = """
import importlib, pkgutil
import tripheno
wanting = set()
for module in pkgutil.walk_packages(tripheno.__path__, "tripheno."):
    if module.name.startswith(("tripheno.testing", "tripheno.__main__")):
        continue
    try:
        importlib.import_module(module.name)
    except ModuleNotFoundError as fault:
        assert (fault.name or "").partition(".")[0] in ("nvflare", "psutil"), (module.name, fault)
        wanting.add(module.name.partition(".")[2].partition(".")[0])
print(sorted(wanting))
"""
HOLD = """
from pathlib import Path
from tripheno.files import held
try:
    with held(Path(sys.argv[1])):
        print("held", flush=True)
        sys.stdin.readline()
except BlockingIOError:
    print("refused", flush=True)
"""
WORK = """
from pathlib import Path
from typer.testing import CliRunner
from tripheno.cli.main import app
from tripheno.report.annotations import Annotations
from tripheno.federation.journal import Journal
folder = Path(sys.argv[1])
for words in (["init", "site", "--folder", "northfield"], ["init", "coordinator", "--folder", "c"],
              ["approve", "--make-key", "--key", "officer.key"]):
    os.chdir(folder)
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, (words, done.output, done.exception)
for value in ("Sepsis – früh", "second"):
    Annotations(folder / "said.jsonl", "run-1").add(1, "Dr Ångström", "name", value)
Journal(folder).note("joined", "Küste")
data = (folder / "log.jsonl").read_bytes()
assert "Küste".encode() in data and b"\\r" not in data
print([one.value for one in Annotations(folder / "said.jsonl", "run-1").said()].index("second"))
"""
STUDY = """
import csv
from pathlib import Path
from typer.testing import CliRunner
from tripheno.cli.main import app
from tripheno.lab.synthetic.network import SyntheticSettings, synthetic_network
folder = Path(sys.argv[1])
TABLE = '[[source.tables]]\\nfile = "records.csv"\\npatient = "patient"\\nvisit = "window"\\n'
(folder / "site.toml").write_text("".join(
    f'{TABLE}code = "code"\\nmode = "{mode}"\\nonly = {{column = "mode", values = ["{mode}"]}}\\n'
    for mode in ("medication", "diagnosis")), encoding="utf-8")
sites = []
made = SyntheticSettings((60, 55, 50), codes_per_mode={"medication": 20, "diagnosis": 18})
for hospital in synthetic_network(made).hospitals:
    raw = folder / f"raw of {hospital.name}"
    raw.mkdir()
    with (raw / "records.csv").open("w", newline="", encoding="utf-8") as stream:
        out = csv.DictWriter(stream, ["patient", "window", "mode", "code"], extrasaction="ignore")
        out.writeheader()
        out.writerows(hospital.events.to_pylist())
    sites.append(str(folder / hospital.name))
    words = ["ingest", "flat", str(raw), "--out", sites[-1], "--window", "visit", "--modes",
             "medication,diagnosis", "--settings", str(folder / "site.toml")]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, (words, done.output, done.exception)
for words in (["simulate", *sites, "--out", str(folder / "run"), "--rank", "2", "--starts", "2",
               "--max-iter", "3", "--resamples", "0", "--min-cell", "3"],
              ["report", str(folder / "run")]):
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, (words, done.output, done.exception)
assert (folder / "run" / "report.html").stat().st_size > 10_000
for path in folder.rglob("*"):
    plain = path.name.partition(".")[0].upper() not in ("CON", "PRN", "AUX", "NUL", "COM1", "LPT1")
    assert plain and not set(path.name) & set('<>:"|?*') and path.name[-1] not in ". ", path
print("done")
"""


def start(script, *words):
    return subprocess.Popen(
        [sys.executable, "-X", "warn_default_encoding", "-c", SYSTEM + script, *map(str, words)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def said(script, *words):
    with start(script, *words) as process:
        told, fault = process.communicate()
    assert process.returncode == 0, fault
    return told.strip()


def test_only_the_files_of_the_engine_want_the_engine():
    assert said(EVERYTHING) in ("['federation']", "['dashboard', 'federation']")


def test_settings_keys_annotations_and_logs_are_written_as_everywhere(tmp_path):
    assert said(WORK, tmp_path) == "1"


def test_a_file_is_held_by_one_process_at_a_time(tmp_path):
    with start(HOLD, tmp_path / "lock") as first:
        assert first.stdout.readline() == "held\n"
        assert said(HOLD, tmp_path / "lock") == "refused"
        first.communicate("\n")
    assert said(HOLD, tmp_path / "lock") == "held"


def test_records_become_a_report_and_no_file_has_a_name_that_windows_refuses(tmp_path):
    assert said(STUDY, tmp_path) == "done"
