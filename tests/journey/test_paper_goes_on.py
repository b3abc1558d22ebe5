"""A long experiment that is interrupted, or killed, goes on where it was."""

import os
import signal
import subprocess
import sys

from tripheno.evaluation.paper.ledger import read_rows

PATIENCE = 300.0  # seconds until a process that should have ended is called stuck


def skew(folder):
    words = [
        "paper",
        "skew",
        "--scale",
        "0.002",
        "--repeats",
        "2",
        "--rank",
        "3",
        "--max-iter",
        "4",
    ]
    return subprocess.Popen(
        [sys.executable, "-m", "tripheno", *words, "--out", str(folder)],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "NO_COLOR": "1"},
    )  # fmt: skip


def until_rows(process, count):
    """Read what the process says until it has measured so many rows."""
    for line in process.stderr:
        if line.startswith(f"[{count}/"):
            return
    raise AssertionError(f"it ended before row {count}")


def test_ctrl_c_and_kill_lose_no_row_and_the_same_command_goes_on(tmp_path):
    first = skew(tmp_path)
    until_rows(first, 3)
    first.send_signal(signal.SIGINT)
    _, said = first.communicate(timeout=PATIENCE)
    assert first.returncode == 130
    assert "Traceback" not in said
    interrupted = read_rows(tmp_path / "skew.csv")
    assert 3 <= len(interrupted) < 50

    second = skew(tmp_path)
    until_rows(second, 2)
    second.kill()
    second.communicate(timeout=PATIENCE)
    killed = read_rows(tmp_path / "skew.csv")
    assert killed[: len(interrupted)] == interrupted
    assert len(interrupted) + 2 <= len(killed) < 50

    third = skew(tmp_path)
    _, said = third.communicate(timeout=PATIENCE)
    assert third.returncode == 0, said
    rows = read_rows(tmp_path / "skew.csv")
    assert rows[: len(killed)] == killed
    assert len(rows) == len({row.key for row in rows}) == 50
    assert (tmp_path / "index.html").is_file()
