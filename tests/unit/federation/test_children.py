"""What was started for a process does not outlive it, even when it is killed."""

import os
import signal
import subprocess
import sys

import psutil
import pytest

from tripheno.federation.child import words_of_child
from tripheno.federation.launching import ending, followed

SLEEPER = "import time\nprint('here', flush=True)\ntime.sleep(600)\n"
PARENT = """
import os, subprocess, sys, time
words = [sys.executable, "-c", {child!r}, str(os.getpid()), "sleeper"]
child = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
child.stdout.readline()
print(child.pid, flush=True)
time.sleep(600)
"""
CHILD = "{without}\nfrom tripheno.federation import child\nchild.main()\n"
WITHOUT = {"told at once": "", "by looking": "import os; os.__dict__.pop('pidfd_open', None)"}


@pytest.fixture
def sleeper(tmp_path, monkeypatch):
    (tmp_path / "sleeper.py").write_text(SLEEPER)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))


@pytest.mark.parametrize("way", list(WITHOUT))
def test_a_child_whose_parent_is_killed_is_gone(sleeper, way):
    child = CHILD.format(without=WITHOUT[way])
    script = PARENT.format(child=child)
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as parent:
        orphan = psutil.Process(int(parent.stdout.readline()))
        os.kill(parent.pid, signal.SIGKILL)
        gone, _ = psutil.wait_procs([orphan], timeout=60)
    assert gone == [orphan]


def test_a_child_whose_parent_ended_before_it_began_does_not_begin(sleeper):
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        pass
    done = subprocess.run(
        words_of_child(ended.pid, "sleeper"), capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (1, "")


def test_the_engines_own_command_is_run_as_a_child_of_the_engine():
    found = followed(f"{sys.executable} -u -m nvflare.worker -m '/a folder' --set x=1")
    assert found.endswith(f"child {os.getpid()} nvflare.worker -m '/a folder' --set x=1")


@pytest.mark.parametrize(
    ("code", "words"), [(0, "ended"), (-9, "SIGKILL"), (-99, "ended by 99"), (3, "failed (3)")]
)
def test_how_a_job_ended_is_said_in_words(code, words):
    assert words in ending(code)


@pytest.mark.parametrize(
    ("module", "without"),
    [("tripheno.federation.job", "numpy"), ("tripheno.federation.supervision", "numpy"),
     ("tripheno.federation.hospital", "nvflare"), ("tripheno.federation.home", "nvflare")],
)  # fmt: skip
def test_a_process_loads_only_what_its_part_needs(module, without):
    script = f"import sys, {module}\nsys.exit({without!r} in sys.modules)"
    subprocess.run([sys.executable, "-c", script], check=True)
