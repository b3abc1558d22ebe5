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
