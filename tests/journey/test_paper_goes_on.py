"""A long experiment that is interrupted, or killed, goes on where it was."""

import os
import signal
import subprocess
import sys

import pytest

from tripheno.lab.paper.ledger import read_rows

PATIENCE = 300.0  # seconds until a process that should have ended is called stuck

BACKGROUND = ["sh", "-c", "trap '' INT; exec \"$@\"", "sh"]  # as a shell starts such jobs


def skew(folder, jobs, *, background=False):
    small = ["--scale", "0.002", "--repeats", "2", "--rank", "3", "--max-iter", "4"]
    words = ["paper", "skew", *small, "--jobs", str(jobs), "--out", str(folder)]
    return subprocess.Popen(
        [*(BACKGROUND if background else []), sys.executable, "-m", "tripheno", *words],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "NO_COLOR": "1"},
    )  # fmt: skip


def until_rows(process, count):
    """Read what the process says until it has measured so many rows."""
    for line in process.stderr:
        if line.startswith(f"[{count}/"):
            return
    raise AssertionError(f"it ended before row {count}")


def rows_in(folder):
    """Every row on disk, gathered or still where one process has put it."""
    found = [row for path in folder.glob("**/skew.csv") for row in read_rows(path)]
    return {row.key: row for row in found}


@pytest.mark.parametrize(("jobs", "background"), [(1, False), (2, True)])
def test_ctrl_c_and_kill_lose_no_row_and_the_same_command_goes_on(tmp_path, jobs, background):
    first = skew(tmp_path, jobs, background=background)
    until_rows(first, 3)
    first.send_signal(signal.SIGINT)
    _, said = first.communicate(timeout=PATIENCE)
    assert first.returncode == 130
    assert "Traceback" not in said
    interrupted = rows_in(tmp_path)
    assert 3 <= len(interrupted) < 50

    second = skew(tmp_path, jobs)
    until_rows(second, 2)
    second.kill()
    second.communicate(timeout=PATIENCE)
    killed = rows_in(tmp_path)
    assert interrupted.items() <= killed.items()
    assert len(interrupted) + 2 <= len(killed) < 50

    third = skew(tmp_path, jobs)
    _, said = third.communicate(timeout=PATIENCE)
    assert third.returncode == 0, said
    rows = read_rows(tmp_path / "skew.csv")
    assert len(rows) == len({row.key for row in rows}) == 50
    assert killed.items() <= {row.key: row for row in rows}.items()
    assert (tmp_path / "index.html").is_file()
    assert not (tmp_path / ".tripheno-shares").exists()
